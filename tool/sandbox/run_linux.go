package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/holdfast-dev/holdfast/tool/internal/group"
)

// gate waits until this process has set the limits of the new one, and then runs
// the command as its child. In a namespace of processes the gate is the first of
// them: when it ends, the kernel kills all others, also those that left the
// group. If this process dies before it opens the gate, the command never runs.
const gate = `read -r opened <&3 || exit 126; exec 3<&-; "$@"; exit $?`

// gateWithLoopback also sets up the loopback interface of a network that only
// the new process may change. Without the program ip there is none.
const gateWithLoopback = `ip link set lo up 2> /dev/null; ` + gate

// run restricts a thread of its own and starts the command from it: what is
// enforced for a thread holds for the processes that it starts. The thread lives
// as long as the command, since the kernel kills the command when it ends, and
// then ends too. So neither a helper program nor a second start of this program
// is needed.
func (s *Sandbox) run(ctx context.Context, out *os.File, f folders, argv []string) error {
	var rules *ruleset
	if s.able.landlock > 0 {
		var err error
		if rules, err = s.newRuleset(f); err != nil {
			return err
		}
		defer rules.close()
	}
	closed, opens, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make pipe: %w", err)
	}
	defer opens.Close() //nolint:errcheck // the second close of it, unless something failed

	script, caps := gate, []uintptr(nil)
	if s.able.namespaces && s.able.user && !s.c.Network {
		// Any user may have this in a network of his own.
		script, caps = gateWithLoopback, []uintptr{unix.CAP_NET_ADMIN}
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", script, "sh"}, argv...)...)
	cmd.Dir, cmd.Env, cmd.ExtraFiles = s.c.Dir, s.environment(f), []*os.File{closed}
	if out != nil {
		cmd.Stdout, cmd.Stderr = out, out
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, Cloneflags: s.cloneFlags(), AmbientCaps: caps}
	cmd.Cancel = func() error { return group.Kill(cmd) }

	started, ended, gone := make(chan error), make(chan struct{}), make(chan struct{})
	go onOwnThread(func() {
		defer close(gone)
		err := s.restrictThread(rules)
		if err == nil {
			err = cmd.Start()
		}
		started <- err
		<-ended
	})
	defer func() {
		close(ended)
		<-gone
	}()
	err = errors.Join(<-started, closed.Close())
	if cmd.Process == nil {
		return err
	}
	if err == nil {
		err = s.prepare(cmd.Process.Pid)
	}
	if err == nil {
		_, err = opens.WriteString("\n")
	}
	err = errors.Join(err, opens.Close())
	ran := cmd.Wait()
	_ = group.Kill(cmd) // usually the group is empty
	if ctx.Err() != nil || err == nil {
		return ran
	}
	return err
}

// onOwnThread runs work on a thread that ends with it. It is not the thread that
// the process began with: that one cannot end.
func onOwnThread(work func()) {
	runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
	if unix.Gettid() != os.Getpid() {
		work()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		onOwnThread(work)
	}()
	<-done
	runtime.UnlockOSThread()
}

func (s *Sandbox) cloneFlags() uintptr {
	switch {
	case !s.able.namespaces:
		return 0
	case !s.able.user: // the thread has left the other namespaces
		return unix.CLONE_NEWPID
	case s.c.Network:
		return unix.CLONE_NEWPID | unix.CLONE_NEWUSER | unix.CLONE_NEWIPC
	}
	return unix.CLONE_NEWPID | unix.CLONE_NEWUSER | unix.CLONE_NEWIPC | unix.CLONE_NEWNET
}

// restrictThread takes from this thread what a command must not have. The thread
// must not be used for anything else afterwards.
func (s *Sandbox) restrictThread(rules *ruleset) error {
	if s.able.namespaces && !s.able.user {
		if err := unix.Unshare(unix.CLONE_NEWIPC); err != nil {
			return fmt.Errorf("leave shared memory: %w", err)
		}
		if !s.c.Network {
			if err := leaveNetwork(); err != nil {
				return err
			}
		}
	}
	if err := dropCapabilities(); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("give up new privileges: %w", err)
	}
	if rules != nil {
		if err := rules.restrictThread(); err != nil {
			return err
		}
	}
	if s.able.seccomp {
		return s.filterThread()
	}
	return nil
}

// leaveNetwork gives this thread a network of its own, in which there is nothing
// but the loopback interface: servers and clients of one command can talk.
func leaveNetwork() error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("leave network: %w", err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil //nolint:nilerr // a machine without IPv4: there is no loopback either
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	request, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	request.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	_ = unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, request) // without it there is only less to talk to
	return nil
}

// keptCapabilities are those of root that the work on files needs. All others
// (modules, devices, raw disks, clocks, other processes …) are not for commands.
var keptCapabilities = map[uintptr]bool{
	unix.CAP_CHOWN: true, unix.CAP_DAC_OVERRIDE: true, unix.CAP_FOWNER: true, unix.CAP_FSETID: true,
	unix.CAP_SETUID: true, unix.CAP_SETGID: true, unix.CAP_KILL: true, unix.CAP_NET_BIND_SERVICE: true,
}

// dropCapabilities limits what programs started by this thread get. The thread
// itself keeps what it needs to start them.
func dropCapabilities() error {
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) // an old kernel has none
	if os.Geteuid() != 0 {
		return nil
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var own [2]unix.CapUserData
	if err := unix.Capget(&header, &own[0]); err != nil {
		return fmt.Errorf("read capabilities: %w", err)
	}
	if own[0].Effective&(1<<unix.CAP_SETPCAP) == 0 {
		return nil // a root that somebody has limited already and that may not go on
	}
	for c := range uintptr(unix.CAP_LAST_CAP + 1) {
		if keptCapabilities[c] {
			continue
		}
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) { // an older kernel does not know all
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	own[0].Inheritable, own[1].Inheritable = 0, 0
	if err := unix.Capset(&header, &own[0]); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}

// prepare does what must be done to a command from outside, before it begins.
func (s *Sandbox) prepare(pid int) error {
	proc := "/proc/" + strconv.Itoa(pid)
	if s.able.namespaces && s.able.user {
		for _, m := range []struct{ file, text string }{
			{"/setgroups", "deny"},
			{"/gid_map", fmt.Sprintf("%d %[1]d 1", os.Getegid())},
			{"/uid_map", fmt.Sprintf("%d %[1]d 1", os.Geteuid())},
		} {
			if err := os.WriteFile(proc+m.file, []byte(m.text), 0); err != nil {
				return fmt.Errorf("map user: %w", err)
			}
		}
	}
	l := s.c.Limits
	limits := map[int]int64{unix.RLIMIT_CPU: int64(l.CPU.Seconds()), unix.RLIMIT_FSIZE: l.FileSize, unix.RLIMIT_DATA: l.Memory, unix.RLIMIT_CORE: 0}
	if s.able.namespaces && s.able.user {
		limits[unix.RLIMIT_NPROC] = l.Processes
	}
	for resource, most := range limits {
		if most < 0 {
			continue
		}
		var has unix.Rlimit
		if err := unix.Prlimit(pid, resource, nil, &has); err != nil {
			return fmt.Errorf("read limit %d: %w", resource, err)
		}
		limit := min(has.Max, uint64(most))
		if err := unix.Prlimit(pid, resource, &unix.Rlimit{Cur: min(has.Cur, limit), Max: limit}, nil); err != nil {
			return fmt.Errorf("set limit %d: %w", resource, err)
		}
	}
	_ = os.WriteFile(proc+"/oom_score_adj", []byte("1000"), 0) // the first to go; not everywhere permitted
	return nil
}
