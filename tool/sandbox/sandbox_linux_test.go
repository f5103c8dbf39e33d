package sandbox_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool/sandbox"
)

// place is the folders of one case: a workspace, and beside it what no command
// may touch.
type place struct{ workspace, outside string }

const secret = "the-secret-text"

func newPlace(t *testing.T) place {
	t.Helper()
	base := t.TempDir()
	p := place{filepath.Join(base, "workspace"), filepath.Join(base, "outside")}
	write(t, filepath.Join(p.workspace, "own.txt"), "own text\n")
	write(t, filepath.Join(p.workspace, "sub", "deep.txt"), "deep text\n")
	write(t, filepath.Join(p.outside, "secret.txt"), secret+"\n")
	return p
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func newSandbox(t *testing.T, c sandbox.Config) *sandbox.Sandbox {
	t.Helper()
	s, err := sandbox.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// run runs a line and returns its output. A command that a broken sandbox lets
// hang is ended.
func run(t *testing.T, s *sandbox.Sandbox, line string) (string, error) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close() //nolint:errcheck // it was read
	ran := s.Run(ctx, out, "/bin/sh", "-c", line)
	var exit *exec.ExitError
	if ran != nil && !errors.As(ran, &exit) {
		t.Fatalf("%s: %v", line, ran)
	}
	raw, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(raw), ran
}

// tree is a folder's files with their texts and modes.
func tree(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fmt.Fprintln(&b, path, entry.Type())
		if entry.Type().IsRegular() {
			raw, err := os.ReadFile(path)
			fmt.Fprintf(&b, "%q\n", raw)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// needs skips a test of something that this machine cannot enforce.
func needs(t *testing.T, able func(sandbox.Status) bool) {
	t.Helper()
	if status := sandbox.Probe(); !able(status) {
		t.Skip("this machine cannot enforce it: " + status.String())
	}
}

func files(s sandbox.Status) bool     { return s.Files }
func network(s sandbox.Status) bool   { return s.Network }
func processes(s sandbox.Status) bool { return s.Processes }

func TestProbe_saysWhatIsMissing(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, sandbox.Config{Dir: t.TempDir()})
	t.Logf("this machine: %+v", s.Status())
	if got := s.Status(); (len(got.Missing) == 0) != (got.Files && got.Network && got.Processes) {
		t.Errorf("got %+v", got)
	}
	got := s.Without(true, true, true).Status()
	if got.Complete() || got.Files || got.Network || got.Processes || len(got.Missing) != 3 || !strings.Contains(got.String(), "no Landlock") {
		t.Errorf("without anything: %+v", got)
	}
}

func TestNew_refusesWhatItCannotMean(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "file"), "")
	for name, c := range map[string]sandbox.Config{
		"no workspace":    {},
		"a file":          {Dir: filepath.Join(dir, "file")},
		"relative denied": {Dir: dir, Deny: []string{"file"}},
		"relative read":   {Dir: dir, Read: []string{"file"}},
		"relative homes":  {Dir: dir, Homes: "home"},
	} {
		if _, err := sandbox.New(c); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := sandbox.New(sandbox.Config{Dir: filepath.Join(dir, "missing")}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing workspace: %v", err)
	}
}

// Commands of every day, with each set of abilities that a machine may lack.
func TestSandbox_everydayWorkGoesOn(t *testing.T) {
	t.Parallel()
	lines := map[string]string{
		"cat own.txt":                                           "own text\n",
		"grep -r deep . | cat":                                  "./sub/deep.txt:deep text\n",
		"cd sub && cat deep.txt && cat ../own.txt":              "deep text\nown text\n",
		"mkdir -p a/b && mv own.txt a/b/c && cat a/b/c":         "own text\n",
		"cat <<END | tr a-z A-Z\nhere\nEND":                     "HERE\n",
		"f=$TMPDIR/x; echo one > $f && cat $f":                  "one\n",
		"f=$(mktemp) && echo two > $f && cat $f":                "two\n",
		"echo three > $HOME/x && cat ~/x":                       "three\n",
		"mv $(mktemp) here && ls here":                          "here\n",
		"ln -s own.txt l && cat l && rm l":                      "own text\n",
		"ln own.txt sub/hard && cat sub/hard":                   "own text\n",
		"printf '#!/bin/sh\\necho ran\\n' > p; chmod +x p; ./p": "ran\n",
		"sed -i s/own/new/ own.txt && cat own.txt":              "new text\n",
		"{ sleep 60 & kill $!; wait; } 2> /dev/null; echo ok":   "ok\n",
		"echo out; echo err >&2":                                "out\nerr\n",
		"cat; echo nothing to read":                             "nothing to read\n",
		"head -c 4 /dev/zero | wc -c | tr -d ' '":               "4\n",
		"rm -r sub && ls":                                       "own.txt\n",
	}
	if git, err := exec.LookPath("git"); err == nil && strings.HasPrefix(git, "/usr/") {
		lines["git init -q . && git add own.txt && git -c user.name=a -c user.email=a@b commit -q -m first && git log --format=%s"] = "first\n"
	}
	for name, less := range map[string][3]bool{
		"everything": {}, "no Landlock": {true, false, false}, "no filter": {false, true, false}, "no namespaces": {false, false, true},
		"only Landlock": {false, true, true}, "nothing": {true, true, true},
	} {
		for line, want := range lines {
			t.Run(name+"/"+line, func(t *testing.T) {
				t.Parallel()
				p := newPlace(t)
				s := newSandbox(t, sandbox.Config{Dir: p.workspace}).Without(less[0], less[1], less[2])
				if got, err := run(t, s, line); err != nil || got != want {
					t.Errorf("got %q, %v; want %q", got, err, want)
				}
			})
		}
	}
}

func TestSandbox_touchesNoFilesOutside(t *testing.T) {
	t.Parallel()
	needs(t, files)
	for _, line := range []string{
		"cat ../outside/secret.txt",
		"ls ../outside",
		"echo x > ../outside/new",
		"echo x >> ../outside/secret.txt",
		": > ../outside/secret.txt",
		"./escape truncate ../outside/secret.txt",
		"rm -f ../outside/secret.txt",
		"mkdir ../outside/new",
		"mv ../outside/secret.txt .",
		"mv ../outside moved; cat moved/secret.txt",
		"mv own.txt ../outside/",
		"cp own.txt ../outside/",
		"ln ../outside/secret.txt hard && cat hard",
		"./escape link ../outside/secret.txt && cat linked",
		"ln own.txt ../outside/hard",
		"ln -s ../outside/secret.txt soft && cat soft",
		"ln -s ../outside soft && echo x > soft/new",
		"ln -s ../outside soft && cd soft && cat secret.txt",
		"ln -s own.txt ../outside/soft",
		"mkfifo ../outside/pipe",
		"cat /proc/self/cwd/../outside/secret.txt",
		"cat /proc/self/root$PWD/../outside/secret.txt",
		"(cd ../outside && cat secret.txt && echo x > new)",
		"cat < ../outside/secret.txt",
		"mknod dev c 1 3 && cat dev",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			addEscape(t, p.workspace)
			before := tree(t, p.outside)
			s := newSandbox(t, sandbox.Config{Dir: p.workspace})
			got, err := run(t, s, line)
			if err == nil || strings.Contains(got, secret) || strings.Contains(got, "escaped") {
				t.Errorf("it ran: %q, %v", got, err)
			}
			if after := tree(t, p.outside); after != before {
				t.Errorf("it changed\n%s\nto\n%s", before, after)
			}
			if _, err := os.Stat(filepath.Join(p.workspace, "own.txt")); err != nil {
				t.Errorf("it lost a file: %v", err)
			}
		})
	}
}

func TestSandbox_readsWhatIsGranted(t *testing.T) {
	t.Parallel()
	needs(t, files)
	p := newPlace(t)
	s := newSandbox(t, sandbox.Config{Dir: p.workspace, Read: []string{p.outside}})
	if got, err := run(t, s, "cat ../outside/secret.txt"); err != nil || got != secret+"\n" {
		t.Errorf("got %q, %v", got, err)
	}
	before := tree(t, p.outside)
	if got, err := run(t, s, "echo x > ../outside/secret.txt"); err == nil || tree(t, p.outside) != before {
		t.Errorf("it wrote: %q", got)
	}
}

// Each case has several commands, since a later one might read what an earlier
// one renamed.
func TestSandbox_deniedPathsInTheWorkspaceStayClosed(t *testing.T) {
	t.Parallel()
	needs(t, files)
	for _, lines := range [][]string{
		{"cat .env"},
		{"cat sub/private/key"},
		{"grep -r secret ."},
		{"cp .env copy; cat copy"},
		{"mv .env x", "cat x"},
		{"ln .env x", "cat x"},
		{"cat hard.link"},
		{"cat linked/hard.link"},
		{"echo x >> linked/hard.link"},
		{"ln -s .env x; cat x"},
		{"mv sub/private sub/open", "cat sub/open/key"},
		{"mv sub other", "cat other/private/key"},
		{"ln sub/private/key open/key", "cat open/key"},
		{"mv sub/private/key open/key", "cat open/key"},
		{"echo x > .env"},
		{"echo x > sub/private/new"},
		{"rm -rf sub/private"},
	} {
		t.Run(strings.Join(lines, "; "), func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			write(t, filepath.Join(p.workspace, ".env"), secret)
			write(t, filepath.Join(p.workspace, "sub", "private", "key"), secret)
			write(t, filepath.Join(p.workspace, "open", "file"), "open text\n")
			write(t, filepath.Join(p.workspace, "linked", "file"), "open text\n")
			for _, link := range []string{"hard.link", "linked/hard.link"} {
				if err := os.Link(filepath.Join(p.workspace, ".env"), filepath.Join(p.workspace, link)); err != nil {
					t.Fatal(err)
				}
			}
			before := tree(t, filepath.Join(p.workspace, ".env")) + tree(t, filepath.Join(p.workspace, "sub", "private"))
			s := newSandbox(t, sandbox.Config{Dir: p.workspace, Deny: []string{
				filepath.Join(p.workspace, ".env"), filepath.Join(p.workspace, "sub", "private"), filepath.Join(p.workspace, "missing"),
			}})
			for _, line := range lines {
				if got, _ := run(t, s, line); strings.Contains(got, secret) {
					t.Errorf("%s: it read %q", line, got)
				}
			}
			if after := tree(t, filepath.Join(p.workspace, ".env")) + tree(t, filepath.Join(p.workspace, "sub", "private")); after != before {
				t.Errorf("it changed\n%s\nto\n%s", before, after)
			}
			if got, err := run(t, s, "echo more >> own.txt && echo new > open/new && mv open/new open/newer && cat own.txt sub/deep.txt open/newer && ls > /dev/null"); err != nil ||
				got != "own text\nmore\ndeep text\nnew\n" {
				t.Errorf("the work beside it: %q, %v", got, err)
			}
		})
	}
}

func TestSandbox_keysOfThisProcessStayHere(t *testing.T) {
	t.Setenv("HOLDFAST_TEST_KEY", secret)
	t.Setenv("HOLDFAST_TEST_OPEN", "handed on")
	t.Setenv("LC_TIME", "C")
	p := newPlace(t)
	s := newSandbox(t, sandbox.Config{Dir: p.workspace, Env: []string{"HOLDFAST_TEST_OPEN"}})
	got, err := run(t, s, "env")
	if err != nil || strings.Contains(got, secret) || !strings.Contains(got, "HOLDFAST_TEST_OPEN=handed on\n") ||
		!strings.Contains(got, "LC_TIME=C\n") || !strings.Contains(got, "PATH=") {
		t.Errorf("the environment is %q, %v", got, err)
	}
	if home, err := os.UserHomeDir(); err == nil && strings.Contains(got, "HOME="+home+"\n") {
		t.Errorf("it has the home of a person: %q", got)
	}
	t.Run("in memory", func(t *testing.T) {
		needs(t, files)
		for _, file := range []string{"environ", "mem", "root" + filepath.Join(p.outside, "secret.txt"), "cwd/sandbox.go", "task/*/environ", "fd/0", "maps"} {
			if got, err := run(t, s, fmt.Sprintf("cat /proc/%d/%s | tr '\\0' '\\n'; cat /proc/%[1]d/%[2]s > copy", os.Getpid(), file)); err == nil || strings.Contains(got, secret) {
				t.Errorf("%s: read %q", file, got)
			}
		}
	})
}

func TestSandbox_networkOnlyWhereGranted(t *testing.T) {
	t.Parallel()
	needs(t, network)
	p := newPlace(t)
	addEscape(t, p.workspace)
	listen := func(kind, address string) (string, chan struct{}) {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), kind, address)
		if err != nil {
			t.Fatal(err)
		}
		came, done := make(chan struct{}, 16), make(chan struct{})
		go func() {
			defer close(done)
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				came <- struct{}{}
				_ = conn.Close()
			}
		}()
		t.Cleanup(func() {
			_ = listener.Close()
			<-done
		})
		return listener.Addr().String(), came
	}
	packets, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer packets.Close() //nolint:errcheck // only read
	tcp, came := listen("tcp", "127.0.0.1:0")
	// The address of a socket in a file is short; a test's folder may not be.
	short, err := os.MkdirTemp("/tmp", "hf") //nolint:usetesting // see above
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	local, cameLocal := listen("unix", filepath.Join(short, "s"))

	closed := newSandbox(t, sandbox.Config{Dir: p.workspace})
	for _, s := range []*sandbox.Sandbox{closed, closed.Without(false, false, true)} {
		for _, line := range []string{
			"./escape tcp " + tcp, "./escape unix " + local, "./escape unix @holdfast-test",
			fmt.Sprintf("./escape socket %d", syscall.AF_UNIX), "./escape socket 40", "./escape keys x",
		} {
			if got, err := run(t, s, line); err == nil || !strings.HasPrefix(got, "refused:") {
				t.Errorf("%s: %q, %v", line, got, err)
			}
		}
		_, _ = run(t, s, "./escape udp "+packets.LocalAddr().String()) // it may be sent, but not arrive
	}
	open := newSandbox(t, sandbox.Config{Dir: p.workspace, Network: true})
	if got, err := run(t, open, "./escape tcp "+tcp); err != nil || got != "escaped\n" {
		t.Errorf("granted: %q, %v", got, err)
	}
	if got, err := run(t, open, "./escape udp "+packets.LocalAddr().String()+" && ./escape udp "+packets.LocalAddr().String()); err != nil {
		t.Errorf("granted: %q, %v", got, err)
	}
	if got, err := run(t, open, "./escape unix "+local); err == nil {
		t.Errorf("a service of this machine: %q", got)
	}
	<-came
	if len(came) != 0 || len(cameLocal) != 0 {
		t.Errorf("%d and %d came through", len(came), len(cameLocal))
	}
	// Of the packets only those of the open one have come before the last.
	last, err := (&net.Dialer{}).DialContext(t.Context(), "udp", packets.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer last.Close() //nolint:errcheck // it was written
	if _, err := last.Write([]byte("last")); err != nil {
		t.Fatal(err)
	}
	if err := packets.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	for n := 0; ; n++ {
		text := make([]byte, 16)
		size, _, err := packets.ReadFrom(text)
		if err != nil {
			t.Fatal(err)
		}
		if string(text[:size]) == "last" {
			if n != 2 {
				t.Errorf("%d packets came through", n)
			}
			break
		}
	}
}

// A server and its client within one command may talk.
func TestSandbox_itsOwnNetworkWorks(t *testing.T) {
	t.Parallel()
	needs(t, processes)
	if _, err := exec.LookPath("ip"); err != nil && os.Geteuid() != 0 {
		t.Skip("this machine cannot enforce it: there is no program ip to set up the interface with")
	}
	p := newPlace(t)
	addEscape(t, p.workspace)
	if got, err := run(t, newSandbox(t, sandbox.Config{Dir: p.workspace}), "./escape loopback 127.0.0.1:0"); err != nil {
		t.Errorf("got %q, %v", got, err)
	}
}

// openPipe makes a named pipe. It ends when no process holds it open for
// writing any more.
func openPipe(t *testing.T, path string) *os.File {
	t.Helper()
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	pipe, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pipe.Close() })
	if err := pipe.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	return pipe
}

func TestSandbox_leavesNoProcessBehind(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"in the background":        "exec 9> held; sleep 600 & true",
		"in a session of its own":  "exec 9> held; ./escape leave sleep",
		"of a command that failed": "exec 9> held; sleep 600 & exit 3",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if strings.Contains(line, "escape") {
				needs(t, processes)
			}
			p := newPlace(t)
			addEscape(t, p.workspace)
			pipe := openPipe(t, filepath.Join(p.workspace, "held"))
			if got, err := run(t, newSandbox(t, sandbox.Config{Dir: p.workspace}), line); strings.Contains(got, "refused") {
				t.Fatalf("got %q, %v", got, err)
			}
			if _, err := io.ReadAll(pipe); err != nil {
				t.Errorf("a process is still there: %v", err)
			}
		})
	}
}

func TestSandbox_leavesNoTemporaryFolderBehind(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	p := newPlace(t)
	s := newSandbox(t, sandbox.Config{Dir: p.workspace})
	if got, err := run(t, s, "mkdir $TMPDIR/a && echo x > $TMPDIR/a/b && echo y > ~/c && ln -s $PWD $TMPDIR/l && chmod 0 $TMPDIR/a"); err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) != 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if _, err := os.Stat(filepath.Join(p.workspace, "own.txt")); err != nil {
		t.Errorf("the link was followed: %v", err)
	}
}

func TestSandbox_homeOutlivesACommand(t *testing.T) {
	t.Parallel()
	p, other := newPlace(t), newPlace(t)
	homes := filepath.Join(p.outside, "homes")
	s := newSandbox(t, sandbox.Config{Dir: p.workspace, Homes: homes})
	if got, err := run(t, s, "echo kept > ~/x"); err != nil {
		t.Fatalf("got %q, %v", got, err)
	}
	if got, err := run(t, s, "cat ~/x"); err != nil || got != "kept\n" {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := run(t, newSandbox(t, sandbox.Config{Dir: other.workspace, Homes: homes}), "cat ~/x"); err == nil {
		t.Errorf("another workspace reads %q", got)
	}
}

func TestSandbox_limits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name           string
		limits         sandbox.Limits
		within, beyond string
	}{
		{"file size", sandbox.Limits{FileSize: 1 << 20}, "head -c 100000 /dev/zero > small", "head -c 4000000 /dev/zero > big"},
		{"processor", sandbox.Limits{CPU: time.Second}, "true", "while :; do :; done"},
		{
			"memory", sandbox.Limits{Memory: 64 << 20},
			"x=$(head -c 1000 /dev/zero | tr '\\0' x) && test ${#x} = 1000", "x=$(head -c 200000000 /dev/zero | tr '\\0' x) && test ${#x} = 200000000",
		},
		{"processes", sandbox.Limits{Processes: 24}, "./escape fork 1", "./escape fork 60"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			addEscape(t, p.workspace)
			s := newSandbox(t, sandbox.Config{Dir: p.workspace, Limits: c.limits})
			if c.limits.Processes > 0 && !s.CountsProcesses() {
				t.Skip("this machine cannot enforce it: it counts no processes of root, or has no user namespaces")
			}
			if got, err := run(t, s, c.within); err != nil {
				t.Errorf("within: %q, %v", got, err)
			}
			if got, err := run(t, s, c.beyond); err == nil {
				t.Errorf("beyond: %q", got)
			}
			if info, err := os.Stat(filepath.Join(p.workspace, "big")); err == nil && info.Size() > c.limits.FileSize {
				t.Errorf("the file has %d bytes", info.Size())
			}
		})
	}
}

func TestSandbox_cancelEndsTheCommand(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	begins, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer begins.Close() //nolint:errcheck // only read
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	read := make(chan []byte)
	go func() {
		line := make([]byte, 6)
		_, _ = io.ReadFull(begins, line)
		cancel()
		read <- line
	}()
	err = newSandbox(t, sandbox.Config{Dir: p.workspace}).Run(ctx, to, "/bin/sh", "-c", "echo begun; sleep 600 & wait")
	_ = to.Close()
	if line := <-read; !bytes.Equal(line, []byte("begun\n")) || err == nil || ctx.Err() == nil {
		t.Errorf("it wrote %q and ended with %v", line, err)
	}
}

// Many commands at once, each with its own folder: a restricted thread must not
// serve anything else.
func TestSandbox_commandsDoNotDisturbThisProcess(t *testing.T) {
	t.Parallel()
	outside := newPlace(t).outside
	failed := make(chan error, 16)
	for range cap(failed) {
		p := newPlace(t)
		s := newSandbox(t, sandbox.Config{Dir: p.workspace})
		go func() {
			failed <- func() error {
				out, err := os.Create(filepath.Join(p.outside, "out"))
				if err != nil {
					return err
				}
				defer out.Close() //nolint:errcheck // it was read
				if err := s.Run(t.Context(), out, "cat", "own.txt"); err != nil {
					return err
				}
				got, err := os.ReadFile(out.Name())
				if err == nil && string(got) != "own text\n" {
					err = fmt.Errorf("it wrote %q", got)
				}
				return err
			}()
		}()
	}
	for range cap(failed) {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	for i := range 64 {
		write(t, filepath.Join(outside, fmt.Sprint(i)), "x")
	}
	if entries, err := os.ReadDir(outside); err != nil || len(entries) != 65 || !slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == "0" }) {
		t.Errorf("this process: %d files, %v", len(entries), err)
	}
}
