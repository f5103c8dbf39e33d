// Package shell lets an agent run commands, each in a sandbox. No agent has the
// tool unless a program adds it.
package shell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/tool/sandbox"
)

// Config says where and how commands run.
type Config struct {
	// Sandbox holds what commands may do. Its Dir is the workspace, where they
	// start; it must exist.
	Sandbox sandbox.Config

	Timeout    time.Duration // of a command without its own timeout; 0: 2 minutes
	MaxTimeout time.Duration // the longest timeout that a call may set; 0: 10 minutes
	MaxOutput  int           // bytes of output to keep; 0: 32 KiB
}

// New returns the tool shell, which runs a command line with /bin/sh. On Windows
// it fails with ErrUnsupported.
func New(c Config) (tool.Tool, error) {
	if runtime.GOOS == "windows" {
		return nil, fmt.Errorf("run /bin/sh on windows: %w", session.ErrUnsupported)
	}
	box, err := sandbox.New(c.Sandbox)
	if err != nil {
		return nil, err
	}
	c.Timeout = cmp.Or(max(c.Timeout, 0), 2*time.Minute)
	c.MaxTimeout = cmp.Or(max(c.MaxTimeout, 0), max(10*time.Minute, c.Timeout))
	c.MaxOutput = cmp.Or(max(c.MaxOutput, 0), 32<<10)
	return tool.Func(tool.Spec{
		Name: "shell", Effects: tool.Shell, Nature: tool.Once,
		Timeout: c.MaxTimeout + 2*drain, // the limit below ends first and keeps the output
		Description: fmt.Sprintf("Run a command line with /bin/sh in the workspace and see its output and exit code. There is no input to type into. "+
			"It is stopped after %v unless timeout says otherwise, and everything it left running in the background is stopped with it. %s", c.Timeout, reach(c.Sandbox)),
	}, runner{c, box}.run)
}

// reach tells the model what a command can reach, so that it does not try in
// vain.
func reach(c sandbox.Config) string {
	text := "It writes only to the workspace and to $TMPDIR, which is emptied afterwards"
	if !c.Network {
		text += ", and it has no network"
	}
	return text + "."
}

// runner runs the commands of one tool.
type runner struct {
	Config
	box *sandbox.Sandbox
}

type arguments struct {
	Command string  `json:"command" jsonschema:"the command line"`
	Timeout float64 `json:"timeout,omitempty" jsonschema:"seconds after which it is stopped"`
}

// drain is how long to wait for the end of the output: a process that left the
// group may hold the pipe open.
const drain = time.Second

func (c runner) run(ctx context.Context, in arguments) (tool.Result, error) {
	limit := c.Timeout
	switch {
	case strings.TrimSpace(in.Command) == "":
		return tool.Result{}, &session.InvalidError{Field: "command", Reason: "is empty"}
	case in.Timeout < 0 || in.Timeout > c.MaxTimeout.Seconds():
		return tool.Result{}, &session.InvalidError{Field: "timeout", Reason: fmt.Sprintf("%v is not between 0 and %v seconds", in.Timeout, c.MaxTimeout.Seconds())}
	case in.Timeout > 0:
		limit = time.Duration(in.Timeout * float64(time.Second))
	}
	bounded, stop := context.WithTimeout(ctx, limit)
	defer stop()
	out, err := c.output(bounded, in.Command)
	switch {
	case ctx.Err() != nil:
		return tool.Result{}, ctx.Err()
	case bounded.Err() != nil:
		return tool.Result{Content: fmt.Sprintf("stopped after %v\n%s", limit, out), IsError: true}, nil
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return tool.Result{}, fmt.Errorf("run command: %w", err)
	}
	code := 0
	if exit != nil {
		code = exit.ExitCode()
	}
	if code < 0 { // it killed its whole group
		return tool.Result{Content: fmt.Sprintf("ended by %v\n%s", exit, out), IsError: true}, nil
	}
	return tool.Result{Content: fmt.Sprintf("exit code %d\n%s", code, out), IsError: code != 0}, nil
}

// output runs a command and returns what it and its children wrote.
func (c runner) output(ctx context.Context, command string) (string, error) {
	from, to, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer from.Close() //nolint:errcheck // only read
	kept := newHeadTail(c.MaxOutput)
	done := make(chan struct{})
	go func() {
		defer close(done)
		kept.readFrom(from)
	}()
	permit, _ := tool.PermitOf(ctx)
	err = c.box.Denying(permit.Denied...).Run(ctx, to, tool.ShellPath, "-c", command)
	_ = to.Close() // the commands have their own copies
	_ = from.SetReadDeadline(time.Now().Add(drain))
	<-done
	return kept.text(), err
}
