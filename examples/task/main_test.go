package main

import (
	"os"
	"strings"
	"testing"
)

// The processes that work are this very program, also when it is a test.
func TestMain(m *testing.M) {
	if os.Getenv(folderVariable) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestTell_theStoryEndsWell(t *testing.T) {
	var out strings.Builder
	dir := t.TempDir()
	if err := tell(t.Context(), &out, dir); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	rest := out.String()
	for _, want := range []string{
		"plan: read service.ini, then repair what is wrong", "→ file_read", "✓ read service.ini", "? ", "granted by you", "→ file_edit",
		"kill -9", "The process that worked on it has ended", "✓ repair what is wrong", "✗ the check fails", "→ file_write", "✓ the check passes",
		"1 edit of service.ini", "timeout = 30",
	} {
		before, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("no %q after\n%s\nin\n%s", want, before, out.String())
		}
		rest = after
	}
}
