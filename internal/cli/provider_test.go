package cli_test

import (
	"context"
	"encoding/json"
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/holdfast-dev/holdfast/internal/provtest"
)

// goodKey is the key that the providers of stories take.
const goodKey = "sk-good-0123456789abcdef"

// script is what a provider of a story says. Its replies are those of
// provtest as JSON, durations in nanoseconds.
type script struct {
	Models  []string
	Replies []provtest.Reply
}

// provider PROTOCOL FILE starts a server of openai or anthropic that speaks
// from a script, and sets the variables that lead the program to it. The word
// silent in place of a file is a server that takes connections and says nothing.
func provider(ts *testscript.TestScript, _ bool, args []string) {
	protocol, variable := args[0], strings.ToUpper(args[0])
	ts.Setenv(variable+"_API_KEY", goodKey)
	ts.Setenv("HOLDFAST_NO_TITLES", "1") // a script has no replies for them
	if args[1] == "silent" {
		silent, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
		ts.Check(err)
		ts.Defer(func() { _ = silent.Close() })
		ts.Setenv(variable+"_BASE_URL", "http://"+silent.Addr().String())
		return
	}
	var s script
	dec := json.NewDecoder(strings.NewReader(ts.ReadFile(args[1])))
	dec.DisallowUnknownFields()
	ts.Check(dec.Decode(&s))
	start := provtest.OpenAI
	if protocol == "anthropic" {
		start = provtest.Anthropic
	}
	scene := stage(ts)
	scene.release = make(chan struct{})
	for i := range s.Replies {
		s.Replies[i].Release = scene.release
	}
	server := start(provtest.Config{Key: goodKey, Models: s.Models, Replies: s.Replies})
	ts.Defer(server.Close)
	ts.Setenv(variable+"_BASE_URL", server.URL)
	scene.provider = server
}

// scene is what a story keeps between its lines.
type scene struct {
	provider *provtest.Server
	release  chan struct{} // lets the provider's held replies go on
}

type sceneKey struct{}

func stage(ts *testscript.TestScript) *scene {
	s, ok := ts.Value(sceneKey{}).(*scene)
	if !ok {
		ts.Fatalf("the story has no scene")
	}
	return s
}

// release has the last provider send what its replies hold back.
func release(ts *testscript.TestScript, _ bool, _ []string) { close(stage(ts).release) }

// answered N says how many answers the last provider has given, whole.
func answered(ts *testscript.TestScript, _ bool, args []string) {
	if calls := stage(ts).provider.Calls(); strconv.Itoa(calls.Answered) != args[0] {
		ts.Fatalf("%d were answered, want %s: %+v", calls.Answered, args[0], calls)
	}
}

// told REGEXP says what the last provider was told last.
func told(ts *testscript.TestScript, neg bool, args []string) {
	requests := stage(ts).provider.Requests()
	if len(requests) == 0 {
		ts.Fatalf("nothing was told")
	}
	body := requests[len(requests)-1].Body
	if regexp.MustCompile(args[0]).Match(body) == neg {
		ts.Fatalf("told %s: %t, in %s", args[0], !neg, body)
	}
}

// asked N waits until the last provider has been asked so often.
func asked(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	server := stage(ts).provider
	for end := time.Now().Add(time.Minute); server.Calls().Received < want && time.Now().Before(end); {
		<-time.After(5 * time.Millisecond)
	}
	if n := server.Calls().Received; n != want {
		ts.Fatalf("asked %d times, want %d", n, want)
	}
}
