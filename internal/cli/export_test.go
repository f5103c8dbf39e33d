package cli

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/holdfast-dev/holdfast/internal/setup"
	"github.com/holdfast-dev/holdfast/internal/terminal"
)

// RunAgainstServer is Run, but the sessions are on a server that this process
// starts for the command on the store that the command line names. What the
// command line says about agents, such as --allow-write, is said to the server.
// Commands that do not work against a server run as they are.
func RunAgainstServer(args []string, in io.Reader, out, errs io.Writer) int {
	forServer, forCommand, ok := splitCommandLine(args)
	if !ok {
		return Run(args, in, out, errs)
	}
	url, key, stop := startStoryServer(forServer)
	if url == "" {
		return stop()
	}
	defer stop()
	for name, value := range map[string]string{"HOLDFAST_SERVER": url, "HOLDFAST_KEY": key} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	return Run(forCommand, in, out, errs)
}

// splitCommandLine returns what of a command line is for the server, and the
// rest. It is false for a command that does not work against one.
func splitCommandLine(args []string) (forServer, forCommand []string, ok bool) {
	p := &program{Setup: setup.New(&terminal.Console{In: terminal.NewInput(bytes.NewReader(nil)), Out: terminal.NewScreen(io.Discard), Err: terminal.NewScreen(io.Discard), Getenv: os.Getenv}, nil, time.Now)}
	root := p.root()
	root.InitDefaultHelpFlag()
	cmd, rest, err := root.Find(args)
	if err != nil || !cmd.Runnable() || cmd.HasSubCommands() && cmd.Name() != "pending" {
		return nil, nil, false
	}
	if p.Command = cmd; p.CheckAgainstServer("x") != nil || cmd.ParseFlags(rest) != nil || cmd.Flags().Changed("help") || cmd.Flags().Changed("server") {
		return nil, nil, false
	}
	forCommand = strings.Fields(strings.TrimPrefix(cmd.CommandPath(), "holdfast"))
	cmd.Flags().Visit(func(f *pflag.Flag) {
		to := &forCommand
		if f.Name == "store" || slices.Contains(setup.HereFlags, f.Name) {
			to = &forServer
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			*to = append(*to, "--"+f.Name+"="+v)
		}
	})
	if cmd.Name() == "respond" { // here it offers what the waiting calls need; a server offers what it offers
		forServer = append(forServer, "--allow-write", "--allow-shell", "--allow-web")
	}
	if strings.HasPrefix(cmd.CommandPath(), "holdfast task ") { // so it is here
		forServer = append(forServer, "--allow-write")
	}
	return forServer, append(append(forCommand, "--"), cmd.Flags().Args()...), true
}

var storyKey = regexp.MustCompile(`hf_\S+`)

// startStoryServer starts a server. The key of a store is made once and kept in
// the home directory.
func startStoryServer(args []string) (url, key string, stop func() int) {
	tenant := slices.DeleteFunc(slices.Clone(args), func(a string) bool { return !strings.HasPrefix(a, "--tenant=") })
	from := slices.DeleteFunc(slices.Clone(args), func(a string) bool { return !strings.HasPrefix(a, "--store=") })
	kept := filepath.Join(os.Getenv("HOME"), fmt.Sprintf(".key-%x", sha256.Sum256([]byte(strings.Join(append(tenant, from...), " ")+os.Getenv("HOLDFAST_STORE")))))
	if data, err := os.ReadFile(kept); err == nil {
		key = string(data)
	} else if !strings.Contains(strings.Join(from, "")+os.Getenv("HOLDFAST_STORE"), "inmem:") {
		var out, told bytes.Buffer
		if code := Run(append([]string{"keys", "create", "--scope", "admin"}, append(tenant, from...)...), bytes.NewReader(nil), &out, &told); code != 0 {
			fmt.Fprintf(os.Stderr, "%s", told.String())
			return "", "", func() int { return code }
		}
		key = strings.TrimSpace(out.String())
		if err := os.MkdirAll(filepath.Dir(kept), 0o755); err == nil {
			_ = os.WriteFile(kept, []byte(key), 0o600) // else another is made the next time
		}
	}
	told, tell := io.Pipe()
	signals := make(chan os.Signal, 1)
	p := &program{Setup: setup.New(&terminal.Console{
		In: terminal.NewInput(bytes.NewReader(nil)), Out: terminal.NewScreen(io.Discard), Err: terminal.NewScreen(tell), Getenv: os.Getenv,
		Interrupts: terminal.NewInterrupts(signals), Redactor: terminal.NewRedactor(),
	}, os.Environ(), time.Now)}
	args = slices.DeleteFunc(args, func(a string) bool { return strings.HasPrefix(a, "--tenant=") })
	ended := make(chan int, 1)
	go func() {
		code := p.run(append([]string{"serve", "--listen", "127.0.0.1:0", "--no-work", "--quiet", "--drain", "20s"}, args...))
		_ = tell.Close() // a pipe in memory
		ended <- code
	}()
	lines := bufio.NewScanner(told)
	var said strings.Builder
	for url == "" && lines.Scan() {
		fmt.Fprintln(&said, lines.Text())
		if _, after, ok := strings.Cut(lines.Text(), "listening on "); ok {
			url, _, _ = strings.Cut(after, " ")
		}
	}
	for url != "" && key == "" && lines.Scan() {
		key = storyKey.FindString(lines.Text())
	}
	if url == "" {
		fmt.Fprintf(os.Stderr, "%s", said.String())
	}
	go func() { _, _ = io.Copy(io.Discard, told) }()
	return url, key, func() int {
		signals <- os.Interrupt
		return <-ended
	}
}
