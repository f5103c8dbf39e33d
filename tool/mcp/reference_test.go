//go:build unix

package mcp_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/session"
)

// reference is the protocol's own reference server.
const reference = "@modelcontextprotocol/server-everything@2026.8.31"

// installReference fetches the reference server, in CI only: it takes npm and
// half a minute. HOLDFAST_TEST_MCP_EVERYTHING names a folder it was installed
// in already.
func installReference(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("HOLDFAST_TEST_MCP_EVERYTHING"); dir != "" {
		return dir
	}
	if os.Getenv("CI") == "" {
		t.Skip("the reference server is fetched in CI only")
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("the reference server cannot be fetched: there is no npm")
	}
	dir := t.TempDir()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, npm, "install", "--no-audit", "--no-fund", "--prefix", dir, reference)
	cmd.WaitDelay = time.Second
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("the reference server cannot be fetched: %v\n%s", err, out)
	}
	return dir
}

func TestReferenceServer_speaksWithUs(t *testing.T) {
	t.Parallel()
	dir := installReference(t)
	c := quick()
	c.StartTimeout = time.Minute
	s := connect(t, c, session.MCPServer{
		ID: "everything", Command: filepath.Join(dir, "node_modules", ".bin", "mcp-server-everything"), Args: []string{"stdio"},
	})
	var names []string
	for _, found := range s.Tools() {
		names = append(names, found.Spec().Name)
	}
	if len(names) < 8 || !slices.Contains(names, "everything__echo") {
		t.Fatalf("tools %q", names)
	}
	if got := must(t, s, "everything__echo", map[string]any{"message": "hello"}); got.Content != "Echo: hello" {
		t.Errorf("got %+v", got)
	}
	if got := must(t, s, "everything__get-tiny-image", map[string]any{}); !strings.Contains(got.Content, "[image, image/png, ") {
		t.Errorf("got %+v", got)
	}
	if got := must(t, s, "everything__get-structured-content", map[string]any{"location": "Chicago"}); strings.Count(got.Content, "temperature") != 1 {
		t.Errorf("got %+v", got)
	}
}
