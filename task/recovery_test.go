package task

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

func TestClassify_typedErrorsDecideFirst(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{errors.New("user action required: log in"), ClassUser},
		{&session.PermissionDeniedError{Reason: "quota"}, ClassUser},
		{errors.New("429 Too Many Requests"), ClassQuota},
		{errors.New("got status 432"), ClassQuota},
		{errors.New("You exceeded your billing quota"), ClassQuota},
		{&llm.ProviderError{Status: 429, Message: "slow down"}, ClassQuota},
		{&llm.TransientError{Err: &llm.ProviderError{Status: 400, Code: "insufficient_quota"}}, ClassQuota},
		{fmt.Errorf("open x: %w", fs.ErrNotExist), ClassLocalRuntime},
		{errors.New("bash: syntax error near unexpected token"), ClassLocalRuntime},
		{errors.New("command failed with exit code 2"), ClassLocalRuntime},
		{errors.New("ENOTDIR: not a directory"), ClassLocalRuntime},
		{&llm.ProviderError{Status: 500, Message: "no such file"}, ClassExternalUnknown},
		{errors.New("something odd"), ClassExternalUnknown},
		{nil, ClassExternalUnknown},
	} {
		if got := Classify(c.err); got != c.want {
			t.Errorf("%v: %s, want %s", c.err, got, c.want)
		}
	}
}

func TestFailureSignature_masksWhatDiffers(t *testing.T) {
	a := failureSignature("s1", ClassLocalRuntime, errors.New("open /tmp/a/x.go: line 12, id 3f2504e0-4f89-11d3-9a0c-0305e82c3301"))
	b := failureSignature("s1", ClassLocalRuntime, errors.New("open /var/b/y.go: line 99, id 11111111-4f89-11d3-9a0c-0305e82c3301"))
	if a != b {
		t.Errorf("one failure has two signatures:\n%s\n%s", a, b)
	}
	if c := failureSignature("s2", ClassLocalRuntime, errors.New("open /tmp/a/x.go: line 12")); c == a {
		t.Error("two steps have one signature")
	}
	if c := failureSignature("s1", ClassLocalRuntime, errors.New("cannot parse /tmp/a/x.go: line 12")); c == a {
		t.Error("two errors have one signature")
	}
}

// fails lets a tool fail n times and says when it was switched off.
func fails(t *testing.T, s *session.TaskState, of tool.Spec, err error, n int, now int64) (offAt int) {
	t.Helper()
	for i := range n {
		d := failing(s.Tools, of, "", err, err.Error(), now)
		d.apply(s)
		if d.off {
			return i + 1
		}
	}
	return 0
}

var down = &net.OpError{Op: "dial", Err: errors.New("connection refused")}

func TestDisabling_thresholds(t *testing.T) {
	plain := tool.Spec{Name: "get", Effects: tool.Network}
	for name, c := range map[string]struct {
		tool tool.Spec
		err  error
		want int
	}{
		"it will never work":        {plain, &session.UnsupportedError{Store: "x", Ability: "y"}, 1},
		"a wrong key":               {plain, &llm.ProviderError{Status: 401, Message: "no"}, 1},
		"a server that is down":     {plain, &llm.ProviderError{Status: 500, Message: "no"}, 5},
		"a network that is down":    {plain, down, 5},
		"words alone":               {plain, errors.New("403 forbidden: no API key, sandbox, connection refused"), 8},
		"a panic":                   {plain, &session.PanicError{Where: "x", Value: 1}, 5},
		"a write that takes long":   {tool.Spec{Name: "w", Effects: tool.Write}, fmt.Errorf("write: %w", context.DeadlineExceeded), 2},
		"input":                     {plain, &session.InvalidError{Field: "url", Reason: "is empty"}, 8},
		"input of a shell":          {tool.Spec{Name: "sh", Effects: tool.Shell}, errors.New("exit status 1: timeout"), 10},
		"input of a browser":        {tool.Spec{Name: "b", Effects: tool.Browser}, errors.New("no element"), 10},
		"input that names a status": {plain, fmt.Errorf("%w: 500", fs.ErrNotExist), 8},
	} {
		s := session.NewTaskState()
		if got := fails(t, &s, c.tool, c.err, 20, 1); got != c.want {
			t.Errorf("%s: off after %d failures, want %d", name, got, c.want)
		}
	}
}

// When its time is over, a tool begins at nothing; it is not off again after
// one failure. It is off for longer each time, up to a limit, until it works.
func TestDisabling_cooldownGrowsAndCountersRestart(t *testing.T) {
	of := tool.Spec{Name: "get", Effects: tool.Network}
	s := session.NewTaskState()
	now := int64(1_000)
	for i, want := range []int64{2, 4, 8, 16, 16} {
		if n := fails(t, &s, of, down, 9, now); n != 5 {
			t.Fatalf("round %d: off after %d failures, want 5", i, n)
		}
		f, off := disabled(s.Tools, of, "", now)
		if !off || f.DisabledUntil-now != want*time.Minute.Milliseconds() {
			t.Fatalf("round %d: off for %d ms, want %v minutes", i, f.DisabledUntil-now, want)
		}
		if _, off := disabled(s.Tools, of, "", f.DisabledUntil-1); !off {
			t.Fatalf("round %d: on before its time", i)
		}
		now = f.DisabledUntil
		if _, off := disabled(s.Tools, of, "", now); off {
			t.Fatalf("round %d: off after its time", i)
		}
	}
}

func TestDisabling_scopeOfAProvider(t *testing.T) {
	one := tool.Spec{Name: "search", Effects: tool.Network, Provider: "Acme"}
	two := tool.Spec{Name: "search", Effects: tool.Network, Provider: "Other"}
	s := session.NewTaskState()
	if fails(t, &s, one, &llm.ProviderError{Status: 401}, 1, 1) != 1 {
		t.Fatal("a wrong key does not switch it off")
	}
	if f, off := disabled(s.Tools, one, "", 2); !off || f.Scope != "provider" || *s.Recovery.DisabledScope != "provider" {
		t.Errorf("scope %q, off %v; want provider", f.Scope, off)
	}
	if _, off := disabled(s.Tools, two, "", 2); off {
		t.Error("another provider is off too")
	}
}

// A host that fails does not keep a tool from working with others, and pages
// that refuse do not switch it off.
func TestDisabling_scopeOfAHost(t *testing.T) {
	get := tool.Spec{Name: "http_get", Effects: tool.Network}
	s := session.NewTaskState()
	for range systemicFailures {
		failing(s.Tools, get, "one.test", down, "no", 1).apply(&s)
	}
	if f, off := disabled(s.Tools, get, "one.test", 2); !off || f.Scope != "host" {
		t.Errorf("off %v, scope %q", off, f.Scope)
	}
	if _, off := disabled(s.Tools, get, "two.test", 2); off {
		t.Error("it is off for another host")
	}
	failing(s.Tools, get, "two.test", nil, "Status: 403\nforbidden, unauthorized", 3).apply(&s)
	if _, off := disabled(s.Tools, get, "two.test", 4); off {
		t.Error("one page that refuses switches it off")
	}
}
