//go:build !unix

package group

import "os/exec"

// Set does nothing: there are no process groups here.
func Set(*exec.Cmd) {}

// Terminate ends the command; there is no way to ask here.
func Terminate(cmd *exec.Cmd) error { return Kill(cmd) }

// Kill ends the command; what it started goes on.
func Kill(cmd *exec.Cmd) error {
	if cmd.Process == nil {
		return nil
	}
	return cmd.Process.Kill()
}
