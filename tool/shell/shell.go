// Package shell lets an agent run commands. It is not a sandbox: a command may
// do whatever this process may. So no agent has the tool unless a program adds
// it.
package shell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/tool/internal/group"
)

// Config says where and how commands run.
type Config struct {
	Dir string // the workspace, where commands start; it must exist

	// Env names further variables of this process that commands see. By
	// default they see only safeVariables: no key or token.
	Env []string

	Timeout    time.Duration // of a command without its own timeout; 0: 2 minutes
	MaxTimeout time.Duration // the longest timeout that a call may set; 0: 10 minutes
	MaxOutput  int           // bytes of output to keep; 0: 32 KiB
}

var safeVariables = []string{"PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "LANG", "LC_ALL", "LC_CTYPE", "TZ"}

// New returns the tool shell, which runs a command line with /bin/sh. On Windows
// it fails with ErrUnsupported.
func New(c Config) (tool.Tool, error) {
	if runtime.GOOS == "windows" {
		return nil, fmt.Errorf("run /bin/sh on windows: %w", session.ErrUnsupported)
	}
	if c.Dir == "" {
		return nil, &session.InvalidError{Field: "Config.Dir", Reason: "is missing"}
	}
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return nil, fmt.Errorf("find workspace: %w", err)
	}
	if info, err := os.Stat(dir); err != nil {
		return nil, fmt.Errorf("find workspace: %w", err)
	} else if !info.IsDir() {
		return nil, &session.InvalidError{Field: "Config.Dir", Reason: fmt.Sprintf("%q is not a folder", c.Dir)}
	}
	c.Dir = dir
	c.Timeout = cmp.Or(max(c.Timeout, 0), 2*time.Minute)
	c.MaxTimeout = cmp.Or(max(c.MaxTimeout, 0), max(10*time.Minute, c.Timeout))
	c.MaxOutput = cmp.Or(max(c.MaxOutput, 0), 32<<10)
	return tool.Func(tool.Spec{
		Name: "shell", Effects: tool.Shell, Nature: tool.Once,
		Timeout: c.MaxTimeout + 2*drain, // the limit below ends first and keeps the output
		Description: fmt.Sprintf("Run a command line with /bin/sh in the workspace and see its output and exit code. There is no input to type into. "+
			"It is stopped after %v unless timeout says otherwise, and everything it left running in the background is stopped with it.", c.Timeout),
	}, c.run)
}

type arguments struct {
	Command string  `json:"command" jsonschema:"the command line"`
	Timeout float64 `json:"timeout,omitempty" jsonschema:"seconds after which it is stopped"`
}

// drain is how long to wait for the end of the output: a process that left the
// group may hold the pipe open.
const drain = time.Second

func (c Config) run(ctx context.Context, in arguments) (tool.Result, error) {
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
	cmd := exec.CommandContext(bounded, "/bin/sh", "-c", in.Command)
	cmd.Dir, cmd.Env = c.Dir, c.environment()
	group.Set(cmd)
	out, err := c.output(cmd)
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
	if exit != nil && !exit.Exited() {
		return tool.Result{Content: fmt.Sprintf("ended by %v\n%s", exit, out), IsError: true}, nil
	}
	code := cmd.ProcessState.ExitCode()
	return tool.Result{Content: fmt.Sprintf("exit code %d\n%s", code, out), IsError: code != 0}, nil
}

// output runs a command and returns what it and its children wrote. As soon as
// the shell has ended, for whatever reason, its group is killed. The pipe is
// ours because a background process would keep cmd's own pipe open: here it is
// killed before the rest of the output is read.
func (c Config) output(cmd *exec.Cmd) (string, error) {
	from, to, err := os.Pipe()
	if err != nil {
		return "", err
	}
	defer from.Close() //nolint:errcheck // only read
	cmd.Stdout, cmd.Stderr = to, to
	err = cmd.Start()
	if closed := to.Close(); err != nil || closed != nil {
		return "", errors.Join(err, closed)
	}
	kept := newHeadTail(c.MaxOutput)
	done := make(chan struct{})
	go func() {
		defer close(done)
		kept.readFrom(from)
	}()
	err = cmd.Wait()
	_ = group.Kill(cmd) // usually the group is empty
	_ = from.SetReadDeadline(time.Now().Add(drain))
	<-done
	return kept.text(), err
}

func (c Config) environment() []string {
	env := []string{"TERM=dumb", "NO_COLOR=1", "PWD=" + c.Dir}
	for _, name := range slices.Concat(safeVariables, c.Env) {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}
