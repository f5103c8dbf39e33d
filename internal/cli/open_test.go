//go:build unix

package cli_test

import (
	"context"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// With a key the address logs in; without one the page asks for it.
func TestOpen_logsABrowserIn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServer(t, "sqlite:"+filepath.Join(dir, "s.db"), "--quiet")
	key := firstKey.FindString(s.await(t, "administrator's key"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	open := func(env ...string) string {
		t.Helper()
		cmd := exec.CommandContext(ctx, "holdfast", "open")
		cmd.Env = append(append(os.Environ(), "HOLDFAST_SERVER="+s.url, "BROWSER=true", "GORACE="+noSleep), env...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(out))
	}
	if got := open(); got != s.url {
		t.Errorf("without a key it opens %q, want %q", got, s.url)
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, open("HOLDFAST_KEY="+key), nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultTransport.RoundTrip(q)
	if err != nil {
		t.Fatal(err)
	}
	if err := res.Body.Close(); err != nil || res.StatusCode != http.StatusSeeOther || len(res.Cookies()) != 1 {
		t.Errorf("%s answers %d with the cookies %v, %v", q.URL, res.StatusCode, res.Cookies(), err)
	}
}
