//go:build !unix

package group

import "os/exec"

// Set does nothing: there are no process groups here.
func Set(*exec.Cmd) {}

// Terminate kills the command: there is no gentler way here.
func Terminate(cmd *exec.Cmd) error { return Kill(cmd) }

// Kill ends the command, but not the processes that it started.
func Kill(cmd *exec.Cmd) error {
	if cmd.Process == nil {
		return nil
	}
	return cmd.Process.Kill()
}
