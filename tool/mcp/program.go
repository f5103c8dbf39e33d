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

// harmless are the variables of this process every program sees.
var harmless = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "LANG", "LC_ALL", "TZ", "SystemRoot", "APPDATA", "PATHEXT"}

// program says how to start a server that is a command.
func (s *Server) program(server session.MCPServer) func(context.Context) (*link, error) {
	env := []string{}
	for _, name := range slices.Concat(harmless, s.config.Env) {
		if value, ok := s.config.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(server.Env)) {
		env = append(env, name+"="+server.Env[name])
	}
	return func(ctx context.Context) (*link, error) {
		p, err := s.run(ctx, server, env)
		if err != nil {
			return nil, err
		}
		said := func() string { return s.secrets.masked(p.stderr.text()) }
		l, err := greet(ctx, &sdk.IOTransport{Reader: p.stdout, Writer: p.stdin, MaxLineLength: maxMessage})
		if err != nil {
			p.stop()
			return nil, (&link{said: said}).explain(err)
		}
		l.release, l.said = p.stop, said
		return l, nil
	}
}

// process is a program that is running.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *os.File
	stderr *lastWords
	ended  chan struct{} // closed when the program and its group are gone
	grace  time.Duration
}

// run starts a program, in a process group of its own. It outlives ctx.
func (s *Server) run(ctx context.Context, server session.MCPServer, env []string) (*process, error) {
	stdout, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	p := &process{stdout: stdout, stderr: &lastWords{}, ended: make(chan struct{}), grace: s.config.StopTimeout}
	p.cmd = exec.CommandContext(context.WithoutCancel(ctx), server.Command, server.Args...)
	p.cmd.Dir, p.cmd.Env = s.config.Dir, env
	p.cmd.Stdout, p.cmd.Stderr = to, p.stderr
	p.cmd.WaitDelay = time.Second // somebody outside the group may hold its stderr open
	group.Set(p.cmd)
	if p.stdin, err = p.cmd.StdinPipe(); err == nil {
		err = p.cmd.Start()
	}
	_ = to.Close() // ours; the program has its own
	if err != nil {
		_ = stdout.Close()
		return nil, fmt.Errorf("start %s: %w", server.Command, err)
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait()      // its exit code means nothing to us
		_ = group.Kill(p.cmd) // what it left behind would hold stdout open
	}()
	return p, nil
}

// stop ends a program as the protocol asks: its input is closed, then it is
// asked to end, then it is killed.
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

// lastWords keeps the end of what a program writes to its standard error.
type lastWords struct {
	mu   sync.Mutex // guards kept
	kept []byte
}

const maxWords = 2 << 10

func (w *lastWords) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept = append(w.kept, p[max(len(p)-maxWords, 0):]...)
	w.kept = append([]byte(nil), w.kept[max(len(w.kept)-maxWords, 0):]...)
	return len(p), nil
}

func (w *lastWords) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return tool.Plain(string(w.kept))
}
