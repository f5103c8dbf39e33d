package kit_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/task"
	"github.com/holdfast-dev/holdfast/task/kit"
	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/tool/web"
)

func registry(t *testing.T, c kit.Config) *kit.Registry {
	t.Helper()
	r, err := kit.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func TestTools_everyOneDeclaresWhatItDoes(t *testing.T) {
	t.Parallel()
	r := registry(t, kit.Config{Web: &web.Config{}})
	tools, err := r.Tools(context.Background(), task.Workspace{Root: t.TempDir(), Capabilities: map[string]bool{"shell": true}})
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range tools {
		spec := item.Spec()
		if spec.Effects == 0 {
			t.Errorf("%s declares nothing", spec.Name)
		}
		if reads := spec.Effects.Within(tool.Read | tool.Network); reads != (spec.Nature == tool.ReadOnly) {
			t.Errorf("%s is %q and declares %v", spec.Name, spec.Nature, spec.Effects.Names())
		}
	}
	if len(tools) != 13 {
		t.Errorf("there are %d tools", len(tools))
	}
}

func TestTools_followTheWorkspace(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	extra := tool.Fake("more", "More.", "x")
	r := registry(t, kit.Config{More: []tool.Tool{extra}})
	names := func(w task.Workspace) string {
		tools, err := r.Tools(ctx, w)
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, item := range tools {
			list = append(list, item.Spec().Name)
		}
		slices.Sort(list)
		return strings.Join(list, " ")
	}
	root := t.TempDir()
	if got := names(task.Workspace{}); got != "calculator current_time more" {
		t.Errorf("without a folder: %s", got)
	}
	if got := names(task.Workspace{Root: root}); strings.Contains(got, "shell") || !strings.Contains(got, "file_write") {
		t.Errorf("without a shell: %s", got)
	}
	if got := names(task.Workspace{Root: root, Capabilities: map[string]bool{"shell": true}}); !strings.Contains(got, "shell") {
		t.Errorf("with a shell: %s", got)
	}
	if _, err := r.Tools(ctx, task.Workspace{Root: filepath.Join(root, "none")}); err == nil {
		t.Error("a folder that is not there has tools")
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Tools(ctx, task.Workspace{Root: t.TempDir()}); !errors.Is(err, session.ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

func TestTools_workInTheirWorkspace(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	r := registry(t, kit.Config{})
	tools, err := r.Tools(context.Background(), task.Workspace{Root: root})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(tools, func(t tool.Tool) bool { return t.Spec().Name == "file_write" })
	result, err := tools[i].Call(context.Background(), tool.Call{ID: "c", Arguments: json.RawMessage(`{"path":"a.txt","content":"hello"}`)})
	if err != nil || result.IsError {
		t.Fatalf("%+v, %v", result, err)
	}
	if data, err := os.ReadFile(filepath.Join(root, "a.txt")); err != nil || string(data) != "hello" {
		t.Errorf("the file is %q, %v", data, err)
	}
}

func TestCheck_isGoodWhenTheCommandIs(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "there"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := registry(t, kit.Config{})
	for command, want := range map[string]bool{"test -f there": true, "test -f missing": false, "echo seen; exit 3": false} {
		output, ok, err := r.Check(context.Background(), task.Workspace{Root: root}, command)
		if err != nil || ok != want {
			t.Errorf("%s: %v, %q, %v", command, ok, output, err)
		}
		if strings.HasPrefix(command, "echo") && !strings.Contains(output, "seen") {
			t.Errorf("%s showed %q", command, output)
		}
	}
}
