//go:build unix

package server_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/internal/benchmark"
	"github.com/holdfast-dev/holdfast/internal/pgserver"
	"github.com/holdfast-dev/holdfast/server"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
	"github.com/holdfast-dev/holdfast/store/postgres"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

// measuredNodes are a node on each store that a server runs on.
func measuredNodes(b *testing.B) map[string]*node {
	b.Helper()
	ctx := context.Background()
	db, err := sqlite.Open(ctx, filepath.Join(b.TempDir(), "bench.db"), sqlite.Config{})
	if err != nil {
		b.Fatal(err)
	}
	pg, err := pgserver.Start(os.Getenv("TMPDIR"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pg.Stop)
	shared, err := postgres.Open(ctx, pg.URL(), postgres.Config{})
	if err != nil {
		b.Fatal(err)
	}
	nodes := map[string]*node{}
	for name, st := range map[string]store.Store{"sqlite": db, "postgres": shared} {
		b.Cleanup(func() { _ = st.Close() })
		nodes[name] = newNodeOn(b, st, func(_ *holdfast.Config, c *server.Config) { c.Rate = 1e9 })
	}
	return nodes
}

// compare measures two ways to do the same alternately, so that whatever else the
// machine does meets both. The ratio is that of the medians; the difference is
// that of the fastest tenths, which had the machine to themselves.
func compare(b *testing.B, library, overHTTP func()) {
	b.Helper()
	var direct, served []time.Duration
	measure := func(fn func()) time.Duration {
		begun := time.Now()
		fn()
		return time.Since(begun)
	}
	for b.Loop() {
		direct, served = append(direct, measure(library)), append(served, measure(overHTTP))
	}
	slices.Sort(direct)
	slices.Sort(served)
	d, s := direct[len(direct)/2], served[len(served)/2]
	b.ReportMetric(float64(s)/float64(d), "http/library")
	b.ReportMetric(float64(served[len(served)/10]-direct[len(direct)/10])/1e6, "ms-more")
	b.ReportMetric(float64(d)/1e6, "ms-library")
}

// send posts JSON and reads the response, as a client on a kept connection does.
func (n *node) send(path string, body any) {
	n.t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		n.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, n.http.URL+path, bytes.NewReader(data))
	if err != nil {
		n.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+n.admin)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		n.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if text, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK {
		n.t.Fatalf("%d %s %v", res.StatusCode, text, err)
	}
}

func (n *node) newSession() string {
	n.t.Helper()
	window := 10
	s, err := n.rt.Create(context.Background(), session.Definition{Name: "bench", Memory: &session.MemoryPolicy{Strategy: session.PruneSliding, Limit: &window}})
	if err != nil {
		n.t.Fatal(err)
	}
	return s.ID()
}

// A turn over HTTP compared with the same turn by the library.
func BenchmarkHTTP_turn(b *testing.B) {
	for name, n := range measuredNodes(b) {
		b.Run(name, func(b *testing.B) {
			one, other := n.newSession(), n.newSession()
			compare(b, func() {
				if _, err := n.rt.Execute(b.Context(), one, holdfast.SendMessage{Text: "hello"}); err != nil {
					b.Fatal(err)
				}
			}, func() { n.send("/v1/sessions/"+other+"/messages", map[string]string{"text": "hello"}) })
		})
	}
}

// A short action over HTTP compared with the same one by the library.
func BenchmarkHTTP_metadata(b *testing.B) {
	for name, n := range measuredNodes(b) {
		b.Run(name, func(b *testing.B) {
			one, other := n.newSession(), n.newSession()
			compare(b, func() {
				if _, err := n.rt.Execute(b.Context(), one, holdfast.WriteMetadata{Key: "k", Value: "v"}); err != nil {
					b.Fatal(err)
				}
			}, func() {
				n.send("/v1/sessions/"+other+"/actions/WriteMetadata", map[string]string{"key": "k", "value": "v"})
			})
		})
	}
}

// What followers of one session cost a server: memory, and the time until all of
// them have a record. They read in a process of their own.
func BenchmarkHTTP_followers(b *testing.B) {
	for _, count := range []int{1000, 5000} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			n := newNode(b, func(_ *holdfast.Config, c *server.Config) { c.MaxStreams, c.Rate = count, 1e6 })
			listener, err := (&net.ListenConfig{}).Listen(b.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			web := &http.Server{Handler: n.server, ReadHeaderTimeout: time.Minute}
			served := make(chan struct{})
			go func() { defer close(served); _ = web.Serve(listener) }()
			b.Cleanup(func() { _ = web.Close(); <-served })
			id := n.newSession()
			before := memoryInUse()
			ask := "GET /v1/sessions/" + id + "/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + n.admin + "\r\n\r\n"
			heard := startFollowers(b, listener.Addr().String(), ask, count)
			heard()
			used, worked := memoryInUse()-before, processorTime(b)
			var took []time.Duration
			for b.Loop() {
				if _, err := n.rt.Execute(b.Context(), id, holdfast.WriteMetadata{Key: "k", Value: "v"}); err != nil {
					b.Fatal(err)
				}
				begun := time.Now()
				heard()
				took = append(took, time.Since(begun))
			}
			slices.Sort(took)
			b.ReportMetric(float64(used)/1e6, "MB")
			b.ReportMetric(float64(took[len(took)/2])/1e6, "ms-to-all")
			b.ReportMetric(float64(processorTime(b)-worked)/1e6/float64(len(took)), "cpu-ms-to-all")
		})
	}
}

// followersVariable is set for the process that reads streams: where they are,
// how many, and the request.
const followersVariable = "HOLDFAST_TEST_FOLLOWERS"

// TestMain reads streams in a process of a benchmark.
func TestMain(m *testing.M) {
	if what := os.Getenv(followersVariable); what != "" {
		if err := follow(what); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// startFollowers starts a process that reads streams. The function waits until
// all of them have caught up, and from then on until all have one more record.
func startFollowers(b *testing.B, address, ask string, count int) (heard func()) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), os.Args[0]) //nolint:gosec // this test itself
	cmd.Env, cmd.Stderr = append(os.Environ(), fmt.Sprintf("%s=%s %d %q", followersVariable, address, count, ask)), os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewScanner(out)
	return func() {
		if !lines.Scan() {
			b.Fatal("the process that follows has ended")
		}
	}
}

// follow reads streams and prints a line when all have caught up, and one when
// all have another record.
func follow(what string) error {
	var address, ask string
	var count int
	if _, err := fmt.Sscanf(what, "%s %d %q", &address, &count, &ask); err != nil {
		return err
	}
	heard := make(chan struct{}, count)
	var caught sync.WaitGroup
	for range count {
		c, err := net.Dial("tcp", address) //nolint:noctx // it ends with the process
		if err != nil {
			return err
		}
		caught.Add(1)
		go readStream(c, ask, caught.Done, func() { heard <- struct{}{} })
	}
	caught.Wait()
	for {
		fmt.Println("all")
		for range count {
			<-heard
		}
	}
}

// processorTime is what this process has worked, whatever else the machine did.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	used, err := benchmark.ProcessorTime()
	if err != nil {
		b.Fatal(err)
	}
	return used
}

// memoryInUse is the heap and the stacks after a collection.
func memoryInUse() int64 {
	for range 3 { // stacks shrink by half each time
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// The memory of a server after 1,000 turns and after 10,000.
func BenchmarkHTTP_memoryOverTurns(b *testing.B) {
	n := newNode(b, func(_ *holdfast.Config, c *server.Config) { c.Rate = 1e9 })
	for b.Loop() {
		early, id := int64(0), ""
		for i := range 10000 {
			if i%50 == 0 {
				id = n.newSession()
			}
			if i == 1000 {
				early = memoryInUse()
			}
			n.send("/v1/sessions/"+id+"/messages", map[string]string{"text": "hello"})
		}
		b.ReportMetric(float64(early)/1e6, "MB-at-1000")
		b.ReportMetric(float64(memoryInUse())/1e6, "MB-at-10000")
	}
}
