package mcp

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/tool/internal/group"
)

// safeVariables are the variables of this process that every program sees.
var safeVariables = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "LANG", "LC_ALL", "TZ", "SystemRoot", "APPDATA", "PATHEXT"}

// programOpener returns a function that starts the server's command.
func (s *Server) programOpener(server session.MCPServer) func(context.Context) (*connection, error) {
	env := []string{}
	for _, name := range slices.Concat(safeVariables, s.config.Env) {
		if value, ok := s.config.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(server.Env)) {
		env = append(env, name+"="+server.Env[name])
	}
	return func(ctx context.Context) (*connection, error) {
		p, err := s.run(ctx, server, env)
		if err != nil {
			return nil, err
		}
		stderr := func() string { return s.secrets.mask(p.stderr.text()) }
		l, err := connect(ctx, &sdk.IOTransport{Reader: p.stdout, Writer: p.stdin, MaxLineLength: maxMessage})
		if err != nil {
			p.stop()
			return nil, (&connection{stderr: stderr}).explain(err)
		}
		l.release, l.stderr = p.stop, stderr
		return l, nil
	}
}

// process is a running program.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *os.File
	stderr *tail
	ended  chan struct{} // closed when the program and its group are gone
	grace  time.Duration
}

// run starts a program in its own process group. It outlives ctx.
func (s *Server) run(ctx context.Context, server session.MCPServer, env []string) (*process, error) {
	stdout, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p := &process{stdout: stdout, stderr: &tail{}, ended: make(chan struct{}), grace: s.config.StopTimeout}
	p.cmd = exec.CommandContext(context.WithoutCancel(ctx), server.Command, server.Args...)
	p.cmd.Dir, p.cmd.Env = s.config.Dir, env
	p.cmd.Stdout, p.cmd.Stderr = to, p.stderr
	p.cmd.WaitDelay = time.Second // a process that left the group may hold stderr open
	group.Set(p.cmd)
	if p.stdin, err = p.cmd.StdinPipe(); err == nil {
		err = p.cmd.Start()
	}
	_ = to.Close() // the program has its own copy
	if err != nil {
		_ = stdout.Close()
		return nil, fmt.Errorf("start %s: %w", server.Command, err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait()      // the exit code does not matter
		_ = group.Kill(p.cmd) // its children would hold stdout open
	}()
	return p, nil
}

// stop ends a program as the protocol demands: close its input, then terminate,
// then kill.
func (p *process) stop() {
	_ = p.stdin.Close()
	for _, next := range []func(*exec.Cmd) error{group.Terminate, group.Kill} {
		timer := time.NewTimer(p.grace)
		select {
		case <-p.ended:
		case <-timer.C:
			_ = next(p.cmd)
		}
		timer.Stop()
	}
	<-p.ended
	_ = p.stdout.Close()
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex // guards kept
	kept []byte
}

const maxTail = 2 << 10

func (w *tail) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept = append(w.kept, p[max(len(p)-maxTail, 0):]...)
	w.kept = slices.Clone(w.kept[max(len(w.kept)-maxTail, 0):])
	return len(p), nil
}

func (w *tail) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return tool.Plain(string(w.kept))
}
