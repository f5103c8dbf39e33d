//go:build unix

package group

import (
	"os/exec"
	"syscall"
)

// Set makes a command, before it starts, the leader of a process group of its
// own. A signal for this program, such as Ctrl-C, does not reach the group.
func Set(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// Terminate asks every process of a started command's group to end.
func Terminate(cmd *exec.Cmd) error { return signal(cmd, syscall.SIGTERM) }

// Kill ends every process of a started command's group at once. It may be
// called after the command has ended, for what it left behind; a process that
// made a session of its own has left the group and is not found.
func Kill(cmd *exec.Cmd) error { return signal(cmd, syscall.SIGKILL) }

func signal(cmd *exec.Cmd, s syscall.Signal) error {
	if cmd.Process == nil || cmd.Process.Pid <= 1 {
		return nil
	}
	return syscall.Kill(-cmd.Process.Pid, s)
}
