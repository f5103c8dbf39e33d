package sandbox

// Without returns a sandbox on a machine that lacks some abilities.
func (s *Sandbox) Without(landlock, seccomp, namespaces bool) *Sandbox {
	less := *s
	if landlock {
		less.able.landlock = 0
	}
	less.able.seccomp = less.able.seccomp && !seccomp
	less.able.namespaces = less.able.namespaces && !namespaces
	return &less
}

// CountsProcesses reports a machine on which the processes of this user's
// commands are counted.
func (s *Sandbox) CountsProcesses() bool { return s.able.namespaces && s.able.user }
