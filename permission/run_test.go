//go:build unix

package permission_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/permission"
)

// decoy is a folder for lines that the engine allows unasked: they are run in it,
// to see whether they do what the engine believed. Whatever they are, they can
// harm nothing: all names in them lie in the decoy, and the programs they find
// only read, or only note that they were started.
type decoy struct {
	base      string // the whole decoy
	workspace string // deep in it, so that no line climbs out of the decoy
	shells    []string
	before    map[string]string // what lies in it
}

// Texts that no allowed line may show.
const (
	outsideText = "text-of-a-file-outside"
	outsideName = "name-of-a-file-outside"
	deniedText  = "text-of-a-denied-file"
)

var (
	// readers are real programs. None of their options writes or starts anything.
	readers = strings.Fields("cat ls head tail grep wc cut tr nl basename dirname")
	// understood are programs that the engine lets run. In the decoy they do nothing.
	understood = strings.Fields("git find sort uniq sed rg tree stat diff du")
	// forbidden must never be started.
	forbidden = strings.Fields("rm mv cp mkdir touch env sh bash timeout xargs evil id nohup sudo awk python make")
)

func newDecoy(t testing.TB) *decoy {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d := &decoy{base: base, workspace: base + "/a/b/c/d/e/f/g/h/w"}
	for dir := filepath.Dir(d.workspace); dir != base; dir = filepath.Dir(dir) {
		d.write(t, filepath.Join(dir, "secret"), outsideText)
		d.write(t, filepath.Join(dir, outsideName), "")
	}
	d.write(t, base+"/home/secret", outsideText)
	d.write(t, d.workspace+"/denied/secret", deniedText)
	for _, name := range []string{"secret", "sub/secret", ".hidden/secret", "-r", "a b"} {
		d.write(t, filepath.Join(d.workspace, name), "x inside")
	}
	bin := filepath.Join(base, "bin")
	for _, name := range append(append([]string{}, understood...), forbidden...) {
		d.write(t, filepath.Join(bin, name), "#!/bin/sh\nfor a; do echo \"$a\" >> '"+d.noted(name)+"'; done\necho >> '"+d.noted(name)+"'\n")
		if err := os.Chmod(filepath.Join(bin, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range readers {
		if program, err := exec.LookPath(name); err == nil {
			if err := os.Symlink(program, filepath.Join(bin, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	d.shells = []string{permission.ShellPath}
	if bash, err := exec.LookPath("bash"); err == nil {
		d.shells = append(d.shells, bash) // elsewhere it is what ShellPath names
	}
	d.write(t, d.noted(""), "")
	if err := os.Remove(d.noted("")); err != nil {
		t.Fatal(err)
	}
	d.before = d.look(t)
	return d
}

func (d *decoy) write(t testing.TB, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	// No process may inherit a program that is open for writing: it could not be run.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// noted is the file in which a program notes that it was started, and with what.
func (d *decoy) noted(name string) string { return filepath.Join(d.base, "noted", name+".txt") }

// look returns what lies in the decoy.
func (d *decoy) look(t testing.TB) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(d.base, func(p string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			found[p] = "no file"
			return err
		}
		text, err := os.ReadFile(p)
		found[p] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// request is about a line in the decoy's workspace.
func (d *decoy) request(line string) permission.Request {
	q := command(line)
	q.Workspace.Root, q.Mode = d.workspace, "dangerous_only"
	return under(q, rule("deny", below(d.workspace+"/denied")))
}

// run runs a line that was allowed unasked, and checks what it did. One that
// leaves something in the background is not run: it could outlive the decoy.
func (d *decoy) run(t testing.TB, line string) {
	t.Helper()
	if strings.Contains(strings.NewReplacer("&&", "", ">&", "").Replace(line), "&") {
		return
	}
	for _, shell := range d.shells {
		ctx, stop := context.WithTimeout(context.Background(), time.Minute)
		cmd := exec.CommandContext(ctx, shell, "-c", line)
		cmd.Dir, cmd.Env = d.workspace, []string{"PATH=" + d.base + "/bin", "HOME=" + d.base + "/home", "LC_ALL=C"}
		cmd.WaitDelay = time.Minute
		out, err := cmd.CombinedOutput() // a program may fail: it was only asked to look
		if ctx.Err() != nil {
			t.Fatalf("%s did not end %q: %v", shell, line, err)
		}
		stop()
		for _, text := range []string{outsideText, outsideName, deniedText} {
			if bytes.Contains(out, []byte(text)) {
				t.Fatalf("%s shows %s by %q", shell, text, line)
			}
		}
		for p, text := range d.look(t) {
			switch name, isNote := strings.CutPrefix(p, d.base+"/noted/"); {
			case isNote:
				d.checkNote(t, line, shell, strings.TrimSuffix(name, ".txt"), text)
				if err := os.Remove(p); err != nil {
					t.Fatal(err)
				}
			case d.before[p] != text:
				t.Fatalf("%s changes %s by %q", shell, p, line)
			}
		}
	}
}

// checkNote checks a program that was started: it must be one that the engine
// understands, and be given nothing outside.
func (d *decoy) checkNote(t testing.TB, line, shell, name, arguments string) {
	t.Helper()
	for _, f := range forbidden {
		if name == f {
			t.Fatalf("%s starts %s by %q", shell, name, line)
		}
	}
	for _, a := range strings.Split(arguments, "\n") {
		p := a
		if !filepath.IsAbs(p) {
			p = filepath.Join(d.workspace, p)
		}
		inside := p == d.workspace || strings.HasPrefix(p, d.workspace+"/")
		if _, err := os.Lstat(p); err == nil && (!inside || strings.HasPrefix(p, d.workspace+"/denied/")) {
			t.Fatalf("%s gives %s the path %s by %q", shell, name, a, line)
		}
	}
}

// pieces are what lines are made of. None names anything outside the decoy.
func (d *decoy) pieces() []string {
	harmless := strings.Fields(`ls cat head grep wc pwd echo cut nl git\ status git\ log git\ diff find sort tail`)
	pieces := []string{
		"-la", "-n", "1", "-e", "x", "inside", "secret", "sub", "sub/secret", "./secret", ".", "*", "?", "sub/*", "s*", "'a b'", `"a b"`, `a\ b`, "--", "-", "-r", "-R", "-type", "-name",
		"..", "../secret", "../*", ".?", ".*", ".?/secret", ".*/secret", "./.?/secret", "sub/.?/.?/secret", "*/../../secret", "sub/../..", "sub/../../secret", "??/secret", "denied", "denied/secret", "d*/secret", "??????/secret", "*/secret",
		`".."/secret`, `\.\./secret`, `'..'/secret`, `.\./secret`, `"."?/secret`, `\.?/secret`, "[.][.]/secret", ".[.]/secret", "@(..)/secret", "{..,.}/secret", "-f../secret", "--file=../secret", "-f..", "--include=../secret",
		"$HOME/secret", "${HOME}/secret", `"$HOME"/secret`, "~/secret", "~", "$(cat ../secret)", "`cat ../secret`", "$'..'/secret", "<(cat ../secret)", "$((1))", d.base + "/home/secret", d.workspace + "/secret", d.workspace + "/../secret",
		"evil", "sh -c evil", "env evil", "timeout 1 evil", "xargs evil", "-exec evil {} +", "-c core.pager=evil", "--output=secret", "-o secret", "eval evil", "cd ..", "cd .. && cat secret", "X=1", "command evil", "exec evil", "g() { evil; }; g",
		";", "&&", "||", "|", "&", "|&", "&>/dev/null", ">/dev/null", "2>&1", ">&2", "> out", ">> secret", "< ../secret", "< secret", "<<< x", "\n", "# ../secret", "\\\n", "(", ")", "{ ", "; }", ";&", "!", "2>/dev/null", "</dev/null", "\t", "\"", "'", "\\", "&\\\n>/dev/null evil",
	}
	for range 8 { // most lines should be ones that may be allowed
		pieces = append(pieces, harmless...)
		pieces = append(pieces, "secret", "sub/secret", "-n", "|", ";", "&&", "*", "x", "2>&1")
	}
	return pieces
}

// assemble makes a line of pieces. At most four of them climb, and each climbs at
// most two folders: no line leaves the decoy.
func assemble(pieces []string, choices []byte) string {
	var b strings.Builder
	climbing := 0
	for i := 0; i+1 < len(choices) && i < 24; i += 2 {
		piece := pieces[(int(choices[i])<<8|int(choices[i+1]))%len(pieces)]
		if strings.ContainsAny(piece, ".?*[{") {
			if climbing++; climbing > 4 {
				continue
			}
		}
		b.WriteString(piece)
		if choices[i]%16 != 15 { // sometimes pieces are one word
			b.WriteByte(' ')
		}
	}
	return b.String()
}

// Lines put together at random, with real shells: what the engine allows unasked
// shows nothing from outside the workspace or from a denied folder, changes
// nothing, and starts nothing but what it names.
func TestRun_whatIsAllowedUnaskedOnlyLooksInTheWorkspace(t *testing.T) {
	t.Parallel()
	d := newDecoy(t)
	pieces := d.pieces()
	for _, line := range []string{
		`pwd &>/dev/null sh -c evil`, "cat .?/secret", "head .*/secret", "grep -r x .?", "ls; cat ../secret", "cat sub/../../secret", "git log --output=secret", "find . -exec evil {} +", "cat d*/secret", "grep -r text .",
		"cat " + d.base + "/home/secret", "ls *", "cat s*", "ls | grep x && pwd", "cat 'a b'",
	} {
		if evaluate(d.request(line)).Decision == "allow" {
			d.run(t, line)
		}
	}
	r := rand.New(rand.NewPCG(11, 12))
	seen, ran := map[string]bool{}, 0
	for range 30_000 {
		choices := make([]byte, 2*(1+r.IntN(9)))
		for i := range choices {
			choices[i] = byte(r.Uint32())
		}
		line := assemble(pieces, choices)
		if seen[line] || evaluate(d.request(line)).Decision != "allow" {
			continue
		}
		seen[line] = true
		if len(strings.Fields(line)) < 2 || ran >= 250 {
			continue
		}
		ran++
		d.run(t, line)
	}
	if ran < 250 {
		t.Errorf("only %d lines were run: the test sees too little", ran)
	}
}

// FuzzRun runs what is allowed of lines that the fuzzer puts together.
func FuzzRun(f *testing.F) {
	d := newDecoy(f)
	pieces := d.pieces()
	for i := range 40 {
		f.Add([]byte(fmt.Sprintf("%dsome choice %d", i, i*i)))
	}
	f.Fuzz(func(t *testing.T, choices []byte) {
		line := assemble(pieces, choices)
		if evaluate(d.request(line)).Decision == "allow" {
			d.run(t, line)
		}
	})
}
