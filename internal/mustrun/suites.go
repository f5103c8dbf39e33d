package main

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strings"
)

const module = "github.com/holdfast-dev/holdfast"

// suites is what a run is held against.
type suites struct {
	run  []string // import paths of packages whose tests must have run
	skip []string // texts; a skip whose reason has one of them is no gap
}

// parse reads a suites file: lines "run FOLDER" and "skip TEXT"; # begins a
// comment line.
func parse(in io.Reader) (suites, error) {
	var s suites
	lines := bufio.NewScanner(in)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		word, rest, _ := strings.Cut(line, " ")
		rest = strings.TrimSpace(rest)
		switch {
		case rest == "":
			return s, fmt.Errorf("line %d: %q has no argument", n, line)
		case word == "run" && rest == ".":
			s.run = append(s.run, module)
		case word == "run":
			s.run = append(s.run, module+"/"+rest)
		case word == "skip":
			s.skip = append(s.skip, rest)
		default:
			return s, fmt.Errorf("line %d: %q is neither run nor skip", n, word)
		}
	}
	return s, lines.Err()
}

// gaps lists what should have run and did not, sorted.
func (s suites) gaps(r results) []string {
	var gaps []string
	for _, pkg := range s.run {
		if r.passed[pkg] == 0 && r.done[pkg] != "fail" {
			gaps = append(gaps, pkg+": no test ran")
		}
	}
	for pkg := range r.passed {
		if !slices.Contains(s.run, pkg) {
			gaps = append(gaps, pkg+": has tests and is not in the suites file")
		}
	}
	for t, why := range r.skips {
		if !slices.ContainsFunc(s.skip, func(text string) bool { return strings.Contains(why, text) }) {
			gaps = append(gaps, fmt.Sprintf("%s: %s was skipped: %s", t.pkg, t.name, why))
		}
	}
	slices.Sort(gaps)
	return gaps
}
