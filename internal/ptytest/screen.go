// Package ptytest has terminals for tests: one of the system, and what its
// screen shows.
package ptytest

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"
)

// Screen is what a terminal shows after it was written to, as far as our
// drawings use its language: lines, up, clear to the end of a line or of all.
func Screen(t *testing.T, written string, columns int) []string {
	t.Helper()
	lines, at := []string{""}, 0
	rest := regexp.MustCompile(`\x1b\[[0-9;]*m`).ReplaceAllString(written, "")
	for rest != "" {
		switch {
		case strings.HasPrefix(rest, "\x1b["):
			end := strings.IndexAny(rest, "AKJ")
			if end < 0 {
				t.Fatalf("not understood: %q", rest)
			}
			n, _ := strconv.Atoi(rest[2:end])
			switch rest[end] {
			case 'A':
				if at -= n; at < 0 {
					t.Fatalf("up %d lines, over the top", n)
				}
			case 'J':
				lines = append(lines[:at:at], "")
			}
			rest = rest[end+1:]
		case rest[0] == '\r':
			rest = rest[1:]
		case rest[0] == '\n':
			if at++; at == len(lines) {
				lines = append(lines, "")
			}
			rest = rest[1:]
		default:
			end := strings.IndexAny(rest+"\n", "\r\n\x1b")
			if lines[at] = rest[:end]; runewidth.StringWidth(lines[at]) >= columns && !strings.HasPrefix(lines[at], "warning: ") {
				t.Errorf("a line of %d columns: %q", runewidth.StringWidth(lines[at]), lines[at])
			}
			rest = rest[end:]
		}
	}
	return lines
}
