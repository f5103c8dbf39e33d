//go:build unix

package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/tool/mcp"
)

// program is this test binary as a server.
func program(t *testing.T, how string) session.MCPServer {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return session.MCPServer{ID: "test", Command: self, Env: map[string]string{mode: how, "NOTES": t.TempDir()}}
}

// quick is a Config for servers that answer at once.
func quick() mcp.Config {
	return mcp.Config{StopTimeout: 300 * time.Millisecond, Backoff: func(int) time.Duration { return time.Millisecond }}
}

func connect(t *testing.T, c mcp.Config, server session.MCPServer) *mcp.Server {
	t.Helper()
	s, err := mcp.Connect(t.Context(), c, server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func named(t *testing.T, s *mcp.Server, name string) tool.Tool {
	t.Helper()
	for _, found := range s.Tools() {
		if found.Spec().Name == name {
			return found
		}
	}
	t.Fatalf("there is no tool %s", name)
	return nil
}

func call(ctx context.Context, t *testing.T, s *mcp.Server, name string, in map[string]any) (tool.Result, error) {
	t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	return named(t, s, name).Call(ctx, tool.Call{ID: "1", Arguments: raw})
}

func must(t *testing.T, s *mcp.Server, name string, in map[string]any) tool.Result {
	t.Helper()
	got, err := call(t.Context(), t, s, name, in)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return got
}

// eventually waits for something that another process does.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		if done() {
			return
		}
		time.Sleep(10 * time.Millisecond) // nothing tells this process of it
	}
	t.Errorf("%s did not happen", what)
}

// usable checks what every server's tools promise.
func usable(t *testing.T, s *mcp.Server) {
	t.Helper()
	for name, want := range map[string]tool.Nature{
		"test__echo": tool.ReadOnly, "test__sum": tool.Idempotent, "test__fail": tool.Once,
	} {
		if spec := named(t, s, name).Spec(); spec.Nature != want || spec.Timeout == 0 {
			t.Errorf("%s: %+v", name, spec)
		}
	}
	if spec := named(t, s, "test__echo").Spec(); spec.Description != "Says it again." || !strings.Contains(string(spec.Schema), "what to say") {
		t.Errorf("described as %+v", spec)
	}
	for name, c := range map[string]struct {
		tool string
		in   map[string]any
		want tool.Result
	}{
		"text":       {"test__echo", map[string]any{"text": "hello"}, tool.Result{Content: "hello"}},
		"structured": {"test__sum", map[string]any{"a": 2, "b": 3}, tool.Result{Content: `{"sum":5}`}},
		"failure":    {"test__fail", nil, tool.Result{Content: "it is broken", IsError: true}},
		"mixed": {"test__mixed", nil, tool.Result{Content: "bold\n[image, image/png, 5 bytes: not shown]\n[audio, audio/wav, 1 bytes: not shown]\n" +
			"[resource doc: file:///doc]\n[resource mem:///a]\ninside\n[resource mem:///b, x/y, 3 bytes: not shown]\n" + `{"n":1}`}},
	} {
		if c.in == nil {
			c.in = map[string]any{}
		}
		if got := must(t, s, c.tool, c.in); got != c.want {
			t.Errorf("%s: got %+v, want %+v", name, got, c.want)
		}
	}
	if got := must(t, s, "test__big", map[string]any{}).Content; len(got) > 70<<10 || !strings.HasSuffix(got, "[cut: the first 65536 of 204800 bytes]") {
		t.Errorf("%d bytes, ending in %q", len(got), got[len(got)-60:])
	}
	if got, err := call(t.Context(), t, s, "test__echo", map[string]any{"wrong": 1}); err == nil && !got.IsError {
		t.Errorf("bad arguments: %+v", got)
	}
	for _, bad := range []string{`[]`, `null`, `{`, `"x"`} {
		if _, err := named(t, s, "test__echo").Call(t.Context(), tool.Call{Arguments: []byte(bad)}); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("arguments %s: %v", bad, err)
		}
	}
}

func TestProgram_toolsAreUsable(t *testing.T) {
	t.Parallel()
	usable(t, connect(t, quick(), program(t, "sdk")))
}

func TestDial_fitsAHook(t *testing.T) {
	t.Parallel()
	// What a runtime is given, so that it need not know this package.
	type hook func(context.Context, session.MCPServer) ([]tool.Tool, io.Closer, error)
	tools, closer, err := hook(quick().Dial)(t.Context(), program(t, "sdk"))
	if err != nil || len(tools) < 5 {
		t.Fatalf("%d tools, %v", len(tools), err)
	}
	for range 2 {
		if err := closer.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := tools[0].Call(t.Context(), tool.Call{}); !errors.Is(err, session.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if _, _, err := quick().Dial(t.Context(), session.MCPServer{ID: "x", Command: "a", URL: "http://b"}); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("both command and url: %v", err)
	}
}

func TestConnect_badServersAreToldAndGone(t *testing.T) {
	t.Parallel()
	for how, want := range map[string]string{
		"refuses": "its standard error says: no licence for ",
		"garbage": "invalid character",
		"hangs":   "deadline exceeded",
		"endless": "the server has more than 50",
		"many":    "the server has more than 50",
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			c := quick()
			c.StartTimeout, c.MaxTools = 20*time.Second, 50
			if how == "hangs" {
				c.StartTimeout = 300 * time.Millisecond
			}
			s, err := mcp.Connect(t.Context(), c, program(t, how))
			if err == nil {
				_ = s.Close()
			}
			if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), `connect mcp server "test": `) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
	_, err := mcp.Connect(t.Context(), quick(), session.MCPServer{ID: "gone", Command: filepath.Join(t.TempDir(), "gone")})
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such program: %v", err)
	}
}

func TestTools_aThousandHaveTheirNames(t *testing.T) {
	t.Parallel()
	set, err := tool.NewSet(connect(t, quick(), program(t, "many")).Tools()...)
	if names := set.Names(); err != nil || len(names) != 1000 || names[999] != "test__tool999" {
		t.Errorf("%d tools, %v", len(names), err)
	}
}

func TestTools_hostileNamesAreMadeValidAndDistinct(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	c := quick()
	c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	server := program(t, "hostile")
	first := connect(t, c, server)
	server.ID = "te st"
	second := connect(t, c, server)
	server.ID = "te_st"
	third := connect(t, c, server)
	set, err := tool.NewSet(slices.Concat(first.Tools(), second.Tools(), third.Tools())...) // refuses what providers do, and repeats
	if err != nil {
		t.Fatal(err)
	}
	if len(set.Names()) != 3*len(hostileNames) {
		t.Errorf("names %q", set.Names())
	}
	again := connect(t, c, server)
	for i, found := range again.Tools() {
		if name := third.Tools()[i].Spec().Name; name != found.Spec().Name {
			t.Errorf("named %s, then %s", name, found.Spec().Name)
		}
		var schema struct{ Type string }
		if err := json.Unmarshal(found.Spec().Schema, &schema); err != nil || schema.Type != "object" {
			t.Errorf("schema %s, %v", found.Spec().Schema, err)
		}
	}
	for _, want := range []string{"the server lists it twice", "it has no name", "does not describe an object", "is not a JSON object", "its schema has 102"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not say %q", want)
		}
	}
	if regexp.MustCompile(`[\x1b\x{202e}]`).MatchString(log.String()) {
		t.Errorf("the log has control characters")
	}
}

func TestCall_timeAndCancelReachTheServer(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"timeout", "cancel"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			server, c := program(t, "sdk"), quick()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			begun := func() bool { _, err := os.Stat(filepath.Join(server.Env["NOTES"], "begun")); return err == nil }
			if how == "timeout" {
				c.CallTimeout = time.Second
			}
			s := connect(t, c, server)
			if how == "cancel" {
				go func() {
					defer cancel()
					eventually(t, "the call", begun)
				}()
			}
			_, err := call(ctx, t, s, "test__slow", map[string]any{})
			if how == "cancel" && !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			if how == "timeout" && (err == nil || !strings.Contains(err.Error(), "no answer within 1s")) {
				t.Errorf("got %v", err)
			}
			eventually(t, "the cancel", func() bool {
				_, err := os.Stat(filepath.Join(server.Env["NOTES"], "cancelled"))
				return err == nil
			})
			eventually(t, "an answer to a later call", func() bool { // on a busy machine one may take more than a second
				got, err := call(t.Context(), t, s, "test__echo", map[string]any{"text": "on"})
				return err == nil && got.Content == "on"
			})
		})
	}
}

func TestCall_aDeadServerIsStartedAgain(t *testing.T) {
	t.Parallel()
	s := connect(t, quick(), program(t, "sdk"))
	for range 2 {
		_, err := call(t.Context(), t, s, "test__die", map[string]any{})
		if err == nil || !strings.Contains(err.Error(), "which may have taken effect") {
			t.Errorf("a call that ends the server: %v", err)
		}
		if got := must(t, s, "test__echo", map[string]any{"text": "back"}); got.Content != "back" {
			t.Errorf("the next call: %+v", got)
		}
	}
	// A call that does no harm twice is made again by itself, another is not.
	if got := must(t, s, "test__die_once_reading", map[string]any{}); got.Content != "alive" {
		t.Errorf("a read-only call: %+v", got)
	}
	if got, err := call(t.Context(), t, s, "test__die_once", map[string]any{}); err == nil {
		t.Errorf("a call that may do harm was made again: %+v", got)
	}
}

func TestCall_triesToStartAreBounded(t *testing.T) {
	t.Parallel()
	server, c := program(t, "sdk"), quick()
	var pauses []int
	c.Retries, c.Backoff = 2, func(retry int) time.Duration { pauses = append(pauses, retry); return time.Millisecond }
	linked := filepath.Join(t.TempDir(), "server")
	if err := os.Symlink(server.Command, linked); err != nil {
		t.Fatal(err)
	}
	server.Command = linked
	s := connect(t, c, server)
	if err := os.Remove(linked); err != nil {
		t.Fatal(err)
	}
	if _, err := call(t.Context(), t, s, "test__die", map[string]any{}); err == nil {
		t.Error("no error")
	}
	_, err := call(t.Context(), t, s, "test__echo", map[string]any{"text": "x"})
	if err == nil || !strings.Contains(err.Error(), `reconnect to mcp server "test"`) || fmt.Sprint(pauses) != "[1 2]" {
		t.Errorf("got %v after pauses %v", err, pauses)
	}
}

func TestClose_aStubbornProgramAndItsChildrenEnd(t *testing.T) {
	t.Parallel()
	server := program(t, "stubborn")
	s, err := mcp.Connect(t.Context(), quick(), server)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"self", "child"} {
		raw, err := os.ReadFile(filepath.Join(server.Env["NOTES"], name))
		if err != nil {
			t.Fatal(err)
		}
		pid, err := strconv.Atoi(string(raw))
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "the end of "+name, func() bool {
			stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
			return syscall.Kill(pid, 0) != nil || (err == nil && strings.Contains(string(stat), ") Z "))
		})
	}
}

func TestSecrets_comeByNameAndDoNotComeBack(t *testing.T) {
	t.Parallel()
	environment := map[string]string{"THE_KEY": "sesame-0123456789", "UNUSED_KEY": "not-to-be-seen", "PATH": os.Getenv("PATH")}
	c := quick()
	c.LookupEnv = func(name string) (string, bool) { v, ok := environment[name]; return v, ok }
	server := program(t, "sdk")
	server.Env["API_KEY"] = "key ${THE_KEY}"
	if got := c.Secrets(server, session.MCPServer{Headers: map[string]string{"x": "${NOT_SET}"}}); fmt.Sprint(got) != "map[THE_KEY:sesame-0123456789]" {
		t.Errorf("secrets %v", got)
	}
	s := connect(t, c, server)
	for name, want := range map[string]string{"API_KEY": "API_KEY=key [secret:THE_KEY]", "UNUSED_KEY": "UNUSED_KEY=", "THE_KEY": "THE_KEY="} {
		if got := must(t, s, "test__variable", map[string]any{"text": name}); got.Content != want {
			t.Errorf("got %q, want %q", got.Content, want)
		}
	}
	refuses := program(t, "refuses")
	refuses.Env["LICENCE_KEY"] = "${THE_KEY}"
	if _, err := mcp.Connect(t.Context(), c, refuses); err == nil || !strings.Contains(err.Error(), "no licence for [secret:THE_KEY]") {
		t.Errorf("got %v", err)
	}
	server.Env["API_KEY"] = "${MISSING_B} ${MISSING_A}"
	if _, err := mcp.Connect(t.Context(), c, server); err == nil || !strings.Contains(err.Error(), "environment variables that are not set: MISSING_A, MISSING_B") {
		t.Errorf("got %v", err)
	}
}
