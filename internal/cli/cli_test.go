package cli_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/testscript"
	_ "modernc.org/sqlite" // for databases of other programs

	"github.com/holdfast-dev/holdfast/internal/cli"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"holdfast": func() {
			run := cli.Run
			if os.Getenv(againstServer) != "" {
				run = cli.RunAgainstServer
			}
			os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
		},
		"tide-server": serveTides,
		"stubborn-server": func() {
			signal.Ignore(syscall.SIGTERM)
			parent := os.Getppid()
			serveTides()
			for os.Getppid() == parent { // until it is killed, or nobody is left to do it
				<-time.After(10 * time.Millisecond)
			}
		},
	})
}

// serveTides is a tool server with one tool.
func serveTides() {
	type place struct {
		Place string `json:"place"`
	}
	server := mcp.NewServer(&mcp.Implementation{Name: "tides"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "next_tide", Description: "When the tide is high."},
		func(_ context.Context, _ *mcp.CallToolRequest, in place) (*mcp.CallToolResult, any, error) {
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "high in " + in.Place + " at noon"}}}, nil, nil
		})
	if err := server.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// noSleep is for programs built with the race detector, which otherwise wait a
// second before they end.
const noSleep = "atexit_sleep_ms=0"

// TestStories runs the program as its users do: one script for each command.
func TestStories(t *testing.T) {
	t.Parallel()
	params := storyParams("file:", nil)
	params.Dir = "testdata"
	testscript.Run(t, params)
}

// againstServer is set where the commands of a story work against a server.
const againstServer = "HOLDFAST_STORY_SERVER"

// notAgainstServer are the stories that do not run against a server, and why.
// In the others [!server] marks what a server refuses or does not have, and
// [file] what is about a store of files.
var notAgainstServer = map[string]string{
	"config":      "has no session: settings of this machine",
	"definitions": "has no session: files of this machine", "settings": "has no session: the settings of a server", "trust": "has no session: folders of this machine",
	"copy": "between stores", "doctor": "looks into a store", "processes": "looks into the files of a store; processes_sqlite does not",
	"replay":  "replays in a store",
	"strands": "in a store without a log, which a server needs for runs",
}

// TestStories_againstAServer runs the same scripts against a server.
func TestStories_againstAServer(t *testing.T) {
	t.Parallel()
	params := storyParams("sqlite:", map[string]string{againstServer: "1"})
	all, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		if notAgainstServer[strings.TrimSuffix(filepath.Base(path), ".txtar")] == "" {
			params.Files = append(params.Files, path)
		}
	}
	testscript.Run(t, params)
}

func storyParams(store string, env map[string]string) testscript.Params {
	return testscript.Params{
		RequireExplicitExec: true,
		Condition: func(name string) (bool, error) {
			switch name {
			case "server":
				return env[againstServer] != "", nil
			case "file":
				return env[againstServer] == "", nil
			}
			return false, fmt.Errorf("there is no condition %q", name)
		},
		Setup: func(e *testscript.Env) error {
			for name, value := range env {
				e.Setenv(name, value)
			}
			e.Setenv("HOLDFAST_STORE", store+filepath.Join(e.WorkDir, "store"))
			e.Setenv("HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv("XDG_DATA_HOME", "")
			e.Setenv("XDG_CONFIG_HOME", "")
			e.Setenv("GORACE", noSleep)
			e.Values[sceneKey{}] = &scene{}
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":     exits,
			"comes":     comes,
			"remember":  remember,
			"unchanged": unchanged,
			"database":  makeDatabase,
			"setid": func(ts *testscript.TestScript, _ bool, args []string) {
				setFromOutput(ts, args[0], `"sessionId":"([^"]+)"`)
			},
			"setchild": func(ts *testscript.TestScript, _ bool, args []string) {
				setFromOutput(ts, args[0], `"childId":"([^"]+)"`)
			},
			"setpending": func(ts *testscript.TestScript, _ bool, args []string) {
				setFromOutput(ts, args[0], `"id":"([^"]+)","kind":"(?:approval|question)"`)
			},
			"count":    count,
			"provider": provider,
			"answered": answered,
			"asked":    asked,
			"told":     told,
			"release":  release,
		},
	}
}

// exits CODE PROGRAM ARGS… runs a program that must end with that code.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	var exit *exec.ExitError
	switch err := ts.Exec(args[1], args[2:]...); {
	case errors.As(err, &exit):
		code = exit.ExitCode()
	default:
		ts.Check(err)
	}
	if code != want {
		ts.Fatalf("exit code is %d, want %d", code, want)
	}
}

// comes REGEXP PROGRAM ARGS… runs a program until its output has such a text:
// what another process has written may not be committed yet.
func comes(ts *testscript.TestScript, _ bool, args []string) {
	want := regexp.MustCompile("(?m)" + args[0])
	for end := time.Now().Add(time.Minute); time.Now().Before(end); <-time.After(5 * time.Millisecond) {
		ts.Check(ts.Exec(args[1], args[2:]...))
		if want.MatchString(ts.ReadFile("stdout")) {
			return
		}
	}
	ts.Fatalf("%s never comes", args[0])
}

// makeDatabase FILE SQL makes a SQLite file, as another program would, by the
// statements in a file.
func makeDatabase(ts *testscript.TestScript, _ bool, args []string) {
	db, err := sql.Open("sqlite", "file:"+ts.MkAbs(args[0]))
	ts.Check(err)
	_, err = db.ExecContext(context.Background(), ts.ReadFile(args[1]))
	ts.Check(errors.Join(err, db.Close()))
}

// remember STORE keeps a fingerprint of a store for unchanged STORE: of its
// directory or, against a server, of all its sessions.
func remember(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv("FINGERPRINT", fingerprint(ts, args[0]))
}

func unchanged(ts *testscript.TestScript, neg bool, args []string) {
	if same := fingerprint(ts, args[0]) == ts.Getenv("FINGERPRINT"); same == neg {
		ts.Fatalf("%s: unchanged is %t", args[0], same)
	}
}

// fingerprint is of every name and every byte but those of the locks, which
// asking for a lease touches.
func fingerprint(ts *testscript.TestScript, dir string) string {
	if ts.Getenv(againstServer) != "" {
		ts.Check(ts.Exec("holdfast", "--store", "sqlite:"+ts.MkAbs(dir), "sessions", "list", "--all", "--json", "--limit", "1000"))
		return ts.ReadFile("stdout")
	}
	h := sha256.New()
	ts.Check(filepath.WalkDir(ts.MkAbs(dir), func(path string, d fs.DirEntry, err error) error {
		ext := filepath.Ext(path)
		if err != nil || d.IsDir() || ext == ".lock" || ext == ".lease" || ext == ".tokens" {
			return err
		}
		data, err := os.ReadFile(path)
		fmt.Fprintf(h, "%s %d\n%s", path, len(data), data)
		return err
	}))
	return fmt.Sprintf("%x", h.Sum(nil))
}

// setFromOutput sets a variable to the first match in the last output. setid VAR
// finds a session, setpending VAR a pending call.
func setFromOutput(ts *testscript.TestScript, name, pattern string) {
	found := regexp.MustCompile(pattern).FindStringSubmatch(ts.ReadFile("stdout"))
	if found == nil {
		ts.Fatalf("nothing matches %s on standard output", pattern)
	}
	ts.Setenv(name, found[1])
}

// count N TEXT says how often a text stands in the last output.
func count(ts *testscript.TestScript, _ bool, args []string) {
	if n := strings.Count(ts.ReadFile("stdout"), args[1]); strconv.Itoa(n) != args[0] {
		ts.Fatalf("%q is there %d times, want %s", args[1], n, args[0])
	}
}
