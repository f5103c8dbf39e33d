//go:build !linux

package sandbox

import (
	"context"
	"os"
	"os/exec"
	"runtime"

	"github.com/holdfast-dev/holdfast/tool/internal/group"
)

// abilities of a system without a sandbox: none.
type abilities struct{}

func probed() abilities { return abilities{} }

func (abilities) status() Status {
	return Status{Missing: []string{"there is no sandbox on " + runtime.GOOS + ": commands can read, write and reach whatever you can"}}
}

func (s *Sandbox) run(ctx context.Context, out *os.File, f folders, argv []string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.c.Dir, s.environment(f), out, out
	group.Set(cmd)
	cmd.Cancel = func() error { return group.Kill(cmd) }
	err := cmd.Run()
	_ = group.Kill(cmd) // usually the group is empty
	return err
}
