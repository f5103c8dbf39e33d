package sandbox

import (
	"context"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// abilities are what the kernel lets this process use.
type abilities struct {
	landlock   int  // the version of its interface; 0: none
	seccomp    bool // a filter of system calls
	namespaces bool // a network, processes and shared memory of its own
	user       bool // the namespaces need a user namespace: this process is not root
	sameSignal bool // Landlock lets threads of one process signal each other
}

// probed tries each ability once. Nothing changes them while a process runs.
var probed = sync.OnceValue(func() abilities {
	a := abilities{landlock: landlockVersion(), seccomp: seccompArch != 0, namespaces: true, user: os.Geteuid() != 0}
	a.sameSignal = landlockErrata()&2 != 0
	try := func(with abilities) bool {
		s := &Sandbox{c: Config{Dir: "/", Limits: Limits{}.withDefaults()}, able: with}
		return s.run(context.Background(), nil, folders{home: "/", temp: "/"}, []string{"/bin/sh", "-c", ":"}) == nil
	}
	if try(a) {
		return a
	}
	if !try(abilities{landlock: a.landlock}) {
		a.landlock = 0
	}
	a.seccomp = a.seccomp && try(abilities{seccomp: true})
	a.namespaces = try(abilities{namespaces: true, user: a.user})
	return a
})

func (a abilities) status() Status {
	s := Status{
		Files:     a.landlock >= 3 || a.landlock > 0 && a.seccomp, // the filter refuses what versions 1 and 2 overlook
		Network:   a.seccomp,
		Processes: a.namespaces,
	}
	switch {
	case a.landlock == 0:
		s.Missing = append(s.Missing, "the kernel offers no Landlock: commands can read and write whatever you can")
	case !s.Files:
		s.Missing = append(s.Missing, fmt.Sprintf("the kernel's Landlock is old (version %d): commands can empty files outside the workspace", a.landlock))
	}
	if !s.Network {
		s.Missing = append(s.Missing, "the kernel offers no filter of system calls: commands can reach services of this machine")
	}
	if !s.Processes {
		s.Missing = append(s.Missing, "the kernel offers no namespaces: commands can leave processes behind and have no network of their own, not even within the command")
	}
	return s
}

// landlockVersion returns the version of the kernel's Landlock, 0 for none.
func landlockVersion() int {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(version)
}

// landlockErrata returns the repaired mistakes of the kernel's Landlock, as bits.
func landlockErrata() int {
	errata, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_ERRATA)
	if errno != 0 {
		return 0
	}
	return int(errata)
}
