package cli_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/holdfast-dev/holdfast/internal/provtest"
	"github.com/holdfast-dev/holdfast/internal/ptytest"
)

// typist is somebody who types commands at a terminal, for the pages of the
// documentation: what a page shows after a mark
//
//	<!-- shown: NAME -->
//
// is what the terminal showed then. HOLDFAST_UPDATE=1 writes it into the pages
// anew, where it is not the same any more.
type typist struct {
	t      *testing.T
	home   string // the person's
	dir    string // where commands run
	called string // what the pages call that folder
	env    []string
	ours   *os.File
	theirs *os.File
	modes  unix.Termios
	screen *ptytest.Screen
	ids    []string // all that were shown so far
	done   []string // names of what was compared

	mu    sync.Mutex // guards the rest
	raw   []byte     // what was written since the last text that was waited for
	grown chan struct{}
}

// sitDown returns a typist at a terminal of so many columns, with a model
// provider that answers from a script.
func sitDown(t *testing.T, columns uint16, provider provtest.Config) *typist {
	t.Helper()
	home, err := os.MkdirTemp("/tmp", "hf") //nolint:usetesting // short: it is part of lines that could be too long
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	ours, theirs := ptytest.Open(t, columns)
	p := &typist{t: t, home: home, dir: filepath.Join(home, "trip"), called: "/home/ann/trip", ours: ours, theirs: theirs, screen: ptytest.NewScreen(int(columns), 0), grown: make(chan struct{})}
	if err := os.Mkdir(p.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	p.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TERM=xterm", "GORACE=" + noSleep, "HOLDFAST_STORE=sqlite:" + filepath.Join(home, "s.db"), "HOLDFAST_OFFLINE_PACE=0s", "HOLDFAST_NO_TITLES=1"}
	if provider.Replies != nil || provider.Choose != nil {
		server := provtest.OpenAI(provider)
		t.Cleanup(server.Close)
		p.env = append(p.env, "OPENAI_API_KEY="+goodKey, "OPENAI_BASE_URL="+server.URL)
	}
	modes, err := unix.IoctlGetTermios(int(theirs.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	p.modes = *modes
	read := make(chan struct{})
	go func() {
		defer close(read)
		p.read()
	}()
	t.Cleanup(func() {
		_ = theirs.Close()
		<-read
	})
	return p
}

// read shows what is written until the terminal is closed.
func (p *typist) read() {
	for buffer := make([]byte, 4096); ; {
		n, err := p.ours.Read(buffer)
		if err != nil {
			return
		}
		_, _ = p.screen.Write(buffer[:n]) // it takes everything
		p.mu.Lock()
		p.raw = append(p.raw, buffer[:n]...)
		close(p.grown)
		p.grown = make(chan struct{})
		p.mu.Unlock()
	}
}

// sees waits until a text was written after the last one that was waited for.
func (p *typist) sees(text string) {
	p.t.Helper()
	for late := time.After(time.Minute); ; {
		p.mu.Lock()
		at, grown := bytes.Index(p.raw, []byte(text)), p.grown
		if at >= 0 {
			p.raw = p.raw[at+len(text):]
		}
		p.mu.Unlock()
		if at >= 0 {
			return
		}
		select {
		case <-grown:
		case <-late:
			p.t.Fatalf("%q is not shown:\n%s", text, p.screen.Text())
		}
	}
}

// begin types a command line. What it starts reads from the terminal.
func (p *typist) begin(line string) *exec.Cmd {
	p.t.Helper()
	p.prompt(line)
	return p.start(line)
}

func (p *typist) start(line string) *exec.Cmd {
	p.t.Helper()
	cmd := exec.CommandContext(p.t.Context(), "bash", "-c", line)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = p.dir, p.env, p.theirs, p.theirs, p.theirs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	return cmd
}

// prompt shows a command line as it is typed at a shell.
func (p *typist) prompt(line string) {
	p.t.Helper()
	p.write("\x1b[2m$\x1b[0m " + line + "\n")
}

func (p *typist) write(text string) {
	p.t.Helper()
	if _, err := p.theirs.WriteString(text); err != nil {
		p.t.Fatal(err)
	}
}

// types answers what is shown: pairs of a text to wait for, and keys to press.
func (p *typist) types(pairs ...string) {
	p.t.Helper()
	for pair := range slices.Chunk(pairs, 2) {
		p.sees(pair[0])
		if _, err := p.ours.WriteString(pair[1]); err != nil {
			p.t.Fatal(err)
		}
	}
}

// runs runs a command line to its end, which must have this code, and types at
// it as types does.
func (p *typist) runs(code int, line string, pairs ...string) {
	p.t.Helper()
	p.ends(p.begin(line), code, pairs...)
}

// runsPiped is runs with outputs that are no terminal.
func (p *typist) runsPiped(code int, line string) {
	p.t.Helper()
	p.prompt(line)
	p.ends(p.start("set -o pipefail; { "+line+"; } </dev/null 2>&1 | cat"), code)
}

func (p *typist) ends(cmd *exec.Cmd, code int, pairs ...string) {
	p.t.Helper()
	p.types(pairs...)
	err := cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != code {
		p.t.Fatalf("the command ended with %d, want %d: %v\n%s", got, code, err, p.screen.Text())
	}
	if err := unix.IoctlSetTermios(int(p.theirs.Fd()), unix.TCSETS, &p.modes); err != nil { // as a shell does
		p.t.Fatal(err)
	}
	const end = "\x1b[m\x1b[m\x1b[m"
	p.write(end)
	p.sees(end)
}

// does runs a command line that the page does not show, and returns what it printed.
func (p *typist) does(line string) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", line)
	cmd.Dir, cmd.Env = p.dir, p.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		p.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return string(out)
}

// file writes a file that the page shows elsewhere, or not at all.
func (p *typist) file(name, text string) {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
}

// changeStore changes the database as a faulty disk would.
func (p *typist) changeStore(statement string) {
	p.t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(p.home, "s.db"))
	if err != nil {
		p.t.Fatal(err)
	}
	_, err = db.ExecContext(p.t.Context(), statement)
	if err := errors.Join(err, db.Close()); err != nil {
		p.t.Fatal(err)
	}
}

// shown compares what was typed and printed since the last call with the
// pages that show it under a name.
func (p *typist) shown(name string) {
	p.t.Helper()
	p.done = append(p.done, name)
	block := regexp.MustCompile("(?s)<!-- shown: " + regexp.QuoteMeta(name) + " -->\n```[a-z]*\n(.*?)```")
	found := false
	for path, marks := range marksInPages(p.t) {
		if slices.Contains(marks, name) {
			found = true
			compare(p.t, path, block, p.text)
		}
	}
	if !found {
		p.t.Errorf("no page shows %s:\n%s", name, p.text())
	}
	p.screen.Clear()
}

// pictured compares what was typed and printed with a picture of the terminal.
func (p *typist) pictured(name, about string) {
	p.t.Helper()
	compare(p.t, "../../docs/"+name, regexp.MustCompile(`(?s)^(.*)$`), func() string { return p.renameIDs(picture(p.screen.Lines(), about)) })
	p.done = append(p.done, name)
}

// picture draws a terminal.
func picture(lines [][]ptytest.Cell, about string) string {
	const top, row, foot = 48, 19, 20
	fills := map[string]string{"": "", "1": ` fill="#ffffff" font-weight="bold"`, "2": ` fill="#8b949e"`, "31": ` fill="#ff7b72"`, "32": ` fill="#7ee787"`, "33": ` fill="#e3b341"`, "36": ` fill="#56d4dd"`}
	for len(lines) > 0 && len(lines[len(lines)-1]) == 0 {
		lines = lines[:len(lines)-1]
	}
	var b strings.Builder
	height := top + row*(len(lines)-1) + foot
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="880" height="%[1]d" viewBox="0 0 880 %[1]d" role="img" aria-label="%[2]s">
<rect width="880" height="%[1]d" rx="8" fill="#0d1117"/>
<circle cx="20" cy="18" r="5" fill="#ff5f57"/><circle cx="38" cy="18" r="5" fill="#febc2e"/><circle cx="56" cy="18" r="5" fill="#28c840"/>
<g font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace" font-size="14" fill="#e6edf3">
`, height, about)
	for i, line := range lines {
		for len(line) > 0 && line[len(line)-1].Text == " " {
			line = line[:len(line)-1]
		}
		fmt.Fprintf(&b, `<text x="20" y="%d" xml:space="preserve">`, top+row*i)
		for len(line) > 0 {
			end := slices.IndexFunc(line, func(c ptytest.Cell) bool { return c.Style != line[0].Style })
			if end < 0 {
				end = len(line)
			}
			var text strings.Builder
			for _, c := range line[:end] {
				text.WriteString(c.Text)
			}
			fmt.Fprintf(&b, "<tspan%s>%s</tspan>", fills[line[0].Style], html.EscapeString(text.String()))
			line = line[end:]
		}
		b.WriteString("</text>\n")
	}
	return b.String() + "</g>\n</svg>\n"
}

// text returns what the terminal shows, with the names that pages have for
// folders and sessions.
func (p *typist) text() string {
	text := strings.Trim(p.screen.Text(), "\n") + "\n"
	return p.renameIDs(strings.NewReplacer(p.dir, p.called, p.home, "/home/ann").Replace(text))
}

// compare compares the one group of a pattern in a page with a text, which may
// need a while to become so.
func compare(t *testing.T, path string, pattern *regexp.Regexp, shown func() string) {
	t.Helper()
	pages.Lock()
	defer pages.Unlock()
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := pattern.FindSubmatchIndex(page)
	if at == nil {
		t.Errorf("%s has a mark without a block", path)
		return
	}
	want, text := steady(string(page[at[2]:at[3]])), shown()
	for late := time.Now().Add(20 * time.Second); os.Getenv("HOLDFAST_UPDATE") == "" && steady(text) != want && time.Now().Before(late); text = shown() {
		<-time.After(20 * time.Millisecond)
	}
	switch {
	case steady(text) == want:
	case os.Getenv("HOLDFAST_UPDATE") != "":
		if err := os.WriteFile(path, slices.Concat(page[:at[2]], []byte(text), page[at[3]:]), 0o600); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s shows\n%s\nbut the program\n%s", path, page[at[2]:at[3]], text)
	}
}

// pages guards the files of the pages.
var pages sync.Mutex

var (
	anID   = regexp.MustCompile(`\b([0-9a-f]{8})(-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})?\b`)
	aTime  = regexp.MustCompile(`\b[0-9]+(?:\.[0-9]+|m[0-9]{2})?s\b`)
	anAge  = regexp.MustCompile(`just now|\b[0-9]+[smh] ago`)
	aDate  = regexp.MustCompile(`\b20[0-9]{2}-[0-9]{2}-[0-9]{2}\b`)
	spaces = regexp.MustCompile(`  +`) // as many as the longest time of a column needs
	turner = regexp.MustCompile(`\p{Braille}`)
)

// steady is a text without what differs from run to run: ids are numbered.
func steady(text string) string {
	text = anAge.ReplaceAllString(text, "AGE")
	text = aTime.ReplaceAllString(text, "TIME")
	text = aDate.ReplaceAllString(text, "DATE")
	text = turner.ReplaceAllString(text, "⠙")
	text = spaces.ReplaceAllString(text, "  ")
	var ids []string
	return anID.ReplaceAllStringFunc(text, func(id string) string { return fmt.Sprintf("ID%d-%d", number(&ids, id), len(id)) })
}

// number returns the place of an id among those seen before, by its beginning.
func number(ids *[]string, id string) int {
	at := slices.Index(*ids, id[:8])
	if at < 0 {
		at = len(*ids)
		*ids = append(*ids, id[:8])
	}
	return at
}

// renameIDs gives the ids of a text those that pages always show.
func (p *typist) renameIDs(text string) string {
	names := []string{"5c0f2a91", "7be1a0c4", "31946c5c", "4f0c6a1e"}
	return anID.ReplaceAllStringFunc(text, func(id string) string {
		at := number(&p.ids, id)
		if at >= len(names) {
			p.t.Fatalf("%s is one id more than there are names for:\n%s", id, p.screen.Text())
		}
		if len(id) > 8 {
			return names[at] + "-1c2d-4e3f-8a4b-5c6d7e8f9a0b"
		}
		return names[at]
	})
}

// marksInPages returns the names after the marks of each page.
func marksInPages(t *testing.T) map[string][]string {
	t.Helper()
	paths, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	marks := map[string][]string{}
	for _, path := range append(paths, "../../README.md") {
		pages.Lock()
		page, err := os.ReadFile(path)
		pages.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`<!-- shown: (\S+) -->`).FindAllSubmatch(page, -1) {
			marks[path] = append(marks[path], string(m[1]))
		}
	}
	return marks
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	full, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return full
}
