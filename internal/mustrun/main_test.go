package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

const pkg = "github.com/holdfast-dev/holdfast/store/file"

// stream builds go test -json events for one package.
type stream []string

func (s stream) test(name, action, says string) stream {
	says = strings.ReplaceAll(says, "\n", `\n`)
	return append(s,
		`{"Action":"run","Package":"`+pkg+`","Test":"`+name+`"}`,
		`{"Action":"output","Package":"`+pkg+`","Test":"`+name+`","Output":"=== RUN   `+name+`\n"}`,
		`{"Action":"output","Package":"`+pkg+`","Test":"`+name+`","Output":"`+says+`\n"}`,
		`{"Action":"`+action+`","Package":"`+pkg+`","Test":"`+name+`"}`)
}

func (s stream) end(action, says string) stream {
	return append(s,
		`{"Action":"output","Package":"`+pkg+`","Output":"PASS\n"}`,
		`{"Action":"output","Package":"`+pkg+`","Output":"`+says+`\n"}`,
		`{"Action":"`+action+`","Package":"`+pkg+`"}`)
}

func (s stream) String() string { return strings.Join(s, "\n") + "\n" }

const closingLine = `ok  \t` + pkg + `\t0.1s`

func TestRun_verdicts(t *testing.T) {
	const listed = "# a comment\n\nrun store/file\nskip store/file has no ability Logs\n"
	good := stream{}.test("TestA", "pass", "fine").end("pass", closingLine)
	for name, c := range map[string]struct {
		suites  string
		events  stream
		lenient bool // the verdict when not strict
		strict  bool
		says    string
	}{
		"all ran":               {listed, good, true, true, "ok  \t" + pkg},
		"a test failed":         {listed, stream{}.test("TestA", "fail", "  a_test.go:1: boom").end("fail", `FAIL\t`+pkg+`\t0.1s`), false, false, "boom"},
		"the build failed":      {listed, stream{`{"Action":"build-output","ImportPath":"x","Output":"x.go:1: syntax error\n"}`, `{"Action":"build-fail","ImportPath":"x"}`}, false, false, "syntax error"},
		"an allowed skip":       {listed, stream{}.test("TestA", "pass", "").test("TestLog", "skip", "    x_test.go:3: file has no ability Logs").end("pass", closingLine), true, true, ""},
		"another's skip":        {"run store/file\nskip store/inmem has no ability Logs\n", stream{}.test("TestA", "pass", "").test("TestLog", "skip", "has no ability Logs").end("pass", closingLine), true, false, "TestLog was skipped"},
		"a skip not allowed":    {listed, stream{}.test("TestA", "pass", "").test("TestKill", "skip", "    x_test.go:3: no time today").end("pass", closingLine), true, false, "TestKill was skipped: x_test.go:3: no time today"},
		"a skip without reason": {listed, stream{}.test("TestA", "pass", "").test("TestKill", "skip", "").end("pass", closingLine), true, false, "TestKill was skipped"},
		"only skips":            {listed, stream{}.test("TestLog", "skip", "has no ability Logs").end("pass", closingLine), true, false, "no test ran"},
		"no test files":         {listed, stream{}.end("skip", `?   \t`+pkg+`\t[no test files]`), true, false, "no test ran"},
		"package missing":       {listed + "run store/lost\n", good, true, false, "store/lost: no test ran"},
		"package not listed":    {"run session\n", good, true, false, pkg + ": has tests and is not in the suites file"},
		"nothing at all":        {listed, nil, true, false, "no test ran"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "suites")
			if err := os.WriteFile(file, []byte(c.suites), 0o600); err != nil {
				t.Fatal(err)
			}
			for strict, want := range map[bool]bool{false: c.lenient, true: c.strict} {
				var out strings.Builder
				got, err := run(strings.NewReader(c.events.String()), &out, file, strict)
				if err != nil || got != want {
					t.Errorf("strict %t: verdict %t, %v; want %t\n%s", strict, got, err, want, out.String())
				}
				if !strings.Contains(out.String(), c.says) {
					t.Errorf("strict %t: output lacks %q:\n%s", strict, c.says, out.String())
				}
				if failed := strings.HasSuffix(out.String(), "FAIL\n"); failed == want {
					t.Errorf("strict %t: verdict %t and the last line does not say so:\n%s", strict, want, out.String())
				}
			}
		})
	}
}

func TestReplay_printsWhatGoTestPrints(t *testing.T) {
	var out strings.Builder
	in := "go: downloading something\n" +
		stream{}.test("TestQuiet", "pass", "nobody wants to read this").test("TestLoud", "fail", "why it failed").end("pass", closingLine).String()
	if _, err := replay(strings.NewReader(in), &out); err != nil {
		t.Fatal(err)
	}
	want := "go: downloading something\n=== RUN   TestLoud\nwhy it failed\nok  \t" + pkg + "\t0.1s\n"
	if out.String() != want {
		t.Errorf("printed %q, want %q", out.String(), want)
	}
}

func TestRun_brokenStreamIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "suites")
	if err := os.WriteFile(file, []byte("run session\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("pipe is gone")
	if _, err := run(iotest.ErrReader(broken), io.Discard, file, false); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

func TestParse_namesTheBadLine(t *testing.T) {
	for text, want := range map[string]string{
		"run session\nruns store\n": `line 2: "runs store"`,
		"run\n":                     `line 1: "run"`,
		"run a b\n":                 `line 1: "run a b"`,
		"skip session\n":            `line 1: "skip session"`,
	} {
		if _, err := parse(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}
