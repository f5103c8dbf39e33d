package sandbox

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// seccompArch is the architecture whose system calls the filter knows, 0 for
// one that nobody has tried.
var seccompArch = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}[runtime.GOARCH]

// filter returns the program that decides about system calls. It refuses what
// the other means do not see: sockets by which a command would reach services of
// this machine (a container engine, an agent for keys) or its host, and the keys
// that the kernel keeps. Pairs of sockets are no way out and work.
func (s *Sandbox) filter() []unix.SockFilter {
	const (
		number, arch, firstArgument = 0, 4, 16 // offsets in struct seccomp_data, little-endian
		foreign                     = 1 << 30  // set in numbers of the x32 calls of amd64
	)
	refuse := func(errno unix.Errno) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(errno)}
	}
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	allow := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
	// when skips the next instruction unless the loaded value is k.
	when := func(k uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: k}
	}

	program := []unix.SockFilter{
		load(arch),
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: seccompArch}, refuse(unix.ENOSYS),
		load(number),
		{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, Jf: 1, K: foreign}, refuse(unix.ENOSYS),
		when(unix.SYS_IO_URING_SETUP), refuse(unix.ENOSYS), // it makes sockets without the call below
		when(unix.SYS_KEYCTL), refuse(unix.EPERM),
		when(unix.SYS_ADD_KEY), refuse(unix.EPERM),
		when(unix.SYS_REQUEST_KEY), refuse(unix.EPERM),
	}
	if s.able.landlock < 3 {
		program = append(program, when(unix.SYS_TRUNCATE), refuse(unix.EACCES))
	}
	domains := []uint32{}
	if s.c.Network || s.able.namespaces {
		domains = append(domains, unix.AF_INET, unix.AF_INET6, unix.AF_NETLINK)
	}
	program = append(program, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, K: unix.SYS_SOCKET}, allow, load(firstArgument))
	for _, domain := range domains {
		program = append(program, when(domain), allow)
	}
	return append(program, refuse(unix.EACCES))
}

// filterThread puts the filter in force for this thread and the processes that
// it starts, for ever.
func (s *Sandbox) filterThread() error {
	program := s.filter()
	p := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]} //nolint:gosec // some dozens
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&p)), 0, 0); err != nil {
		return fmt.Errorf("filter system calls: %w", err)
	}
	runtime.KeepAlive(program)
	return nil
}
