package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// event is one line of `go test -json`.
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// test names one test of one package; an empty name is the package itself.
type test struct{ pkg, name string }

// results sums up a test run.
type results struct {
	failed bool
	passed map[string]int    // tests that passed, by package
	skips  map[test]string   // reasons of skipped tests
	done   map[string]string // last action of each package
}

// replay prints the last line of each package and, for a failed package, the
// output of the failed tests and of the package. Lines that are not events are
// printed unchanged.
func replay(in io.Reader, out io.Writer) (results, error) {
	r := results{passed: map[string]int{}, skips: map[test]string{}, done: map[string]string{}}
	output := map[test]*strings.Builder{}
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadString('\n')
		if line != "" {
			var e event
			if json.Unmarshal([]byte(line), &e) != nil || e.Action == "" {
				fmt.Fprint(out, line)
			} else {
				r.add(e, output, out)
			}
		}
		if err == io.EOF {
			return r, nil
		}
		if err != nil {
			return r, fmt.Errorf("read test events: %w", err)
		}
	}
}

// add records one event.
func (r *results) add(e event, output map[test]*strings.Builder, out io.Writer) {
	key := test{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(out, e.Output)
	case "build-fail":
		r.failed = true
	case "output":
		if output[key] == nil {
			output[key] = &strings.Builder{}
		}
		output[key].WriteString(e.Output)
	case "pass", "fail", "skip":
		text := ""
		if b := output[key]; b != nil {
			text = b.String()
		}
		delete(output, key)
		if e.Test == "" {
			r.done[e.Package] = e.Action
			r.failed = r.failed || e.Action == "fail"
			fmt.Fprint(out, packageOutput(e.Action, text))
			return
		}
		switch e.Action {
		case "pass":
			r.passed[e.Package]++
		case "skip":
			r.skips[key] = skipReason(text)
		case "fail":
			fmt.Fprint(out, text)
		}
	}
}

// packageOutput returns what go test prints for a package: its last line if it
// passed, all output if it failed.
func packageOutput(action, text string) string {
	if action == "fail" {
		return text
	}
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "ok  \t") || strings.HasPrefix(line, "?   \t") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// skipReason returns the output of a skipped test without the lines of go test.
func skipReason(text string) string {
	var kept []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, " / ")
}
