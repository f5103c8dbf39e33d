//go:build unix

package group

import (
	"os/exec"
	"syscall"
)

// Set gives a command, before it starts, its own process group. A signal for
// this program, such as Ctrl-C, does not reach the group.
func Set(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// Terminate asks every process of a started command's group to end.
func Terminate(cmd *exec.Cmd) error { return signal(cmd, syscall.SIGTERM) }

// Kill ends every process of a started command's group at once, also after the
// command itself has ended. A process that started its own session has left
// the group and survives.
func Kill(cmd *exec.Cmd) error { return signal(cmd, syscall.SIGKILL) }

func signal(cmd *exec.Cmd, s syscall.Signal) error {
	if cmd.Process == nil || cmd.Process.Pid <= 1 {
		return nil
	}
	return syscall.Kill(-cmd.Process.Pid, s)
}
