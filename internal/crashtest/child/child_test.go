package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-dev/holdfast/session"
)

func TestMain(m *testing.M) {
	Main(map[string]Program{"test": work})
	os.Exit(m.Run())
}

// work does what its job says.
func work(_ context.Context, p *Process) error {
	var do string
	if err := p.Job(&do); err != nil {
		return err
	}
	p.Ready()
	p.Write("one")
	p.Point("middle")
	p.Write("two")
	switch do {
	case "wait":
		p.Report("waiting")
		p.Wait()
	case "fail":
		return errors.New("it went wrong")
	case "warn":
		p.Problem("it is odd")
	case "busy":
		return fmt.Errorf("give up: %w", session.ErrBusy)
	case "exit":
		os.Exit(0)
	}
	return nil
}

func start(t *testing.T, c Config) *Child {
	t.Helper()
	c.Program = "test"
	started, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return started
}

func TestWait_saysHowAProcessEnded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		config Config
		want   End
		fault  string
	}{
		{config: Config{Job: "work"}},
		{config: Config{Job: "busy"}, want: End{Busy: true}},
		{config: Config{Job: "work", KillWrite: 2}, want: End{Killed: "write two"}},
		{config: Config{Job: "work", KillAt: "middle"}, want: End{Killed: "middle"}},
		{config: Config{Job: "work", KillWrite: 3}},
		{config: Config{Job: "fail"}, fault: "it went wrong"},
		{config: Config{Job: "warn"}, fault: "it is odd"},
		{config: Config{Job: "exit"}, fault: "exit status 0"},
		{config: Config{Job: 1}, fault: "cannot unmarshal"},
	} {
		t.Run(fmt.Sprint(c.config.Job, c.config.KillWrite, c.config.KillAt), func(t *testing.T) {
			t.Parallel()
			end, err := start(t, c.config).Wait()
			if end != c.want || (err != nil) != (c.fault != "") || err != nil && !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%+v, %v, want %+v, %q", end, err, c.want, c.fault)
			}
		})
	}
}

func TestStart_recordsPoints(t *testing.T) {
	t.Parallel()
	c := start(t, Config{Job: "work", Record: true})
	if _, err := c.Wait(); err != nil || !slices.Equal(c.Points(), []string{"write one", "middle", "write two"}) {
		t.Errorf("points %q, %v", c.Points(), err)
	}
}

func TestStart_refusesAnUnknownProgram(t *testing.T) {
	t.Parallel()
	c, err := Start(t.Context(), Config{Program: "other"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Wait(); err == nil || !strings.Contains(err.Error(), `no program "other"`) {
		t.Errorf("it ended with %v", err)
	}
}

// waiting is a process that has reported that it waits.
func waiting(t *testing.T) *Child {
	t.Helper()
	reported := make(chan json.RawMessage, 1)
	c := start(t, Config{Job: "wait", OnReport: func(raw json.RawMessage) { reported <- raw }})
	<-c.Ready
	if got := string(<-reported); got != `"waiting"` {
		t.Fatalf("it reported %s", got)
	}
	return c
}

func TestGoOn_endsAWait(t *testing.T) {
	t.Parallel()
	c := waiting(t)
	if err := c.GoOn(); err != nil {
		t.Fatal(err)
	}
	if end, err := c.Wait(); err != nil || end != (End{}) {
		t.Errorf("%+v, %v", end, err)
	}
}

func TestKill_endsAProcess(t *testing.T) {
	t.Parallel()
	c := waiting(t)
	c.Kill("the test")
	if end, err := c.Wait(); err != nil || end.Killed != "the test" {
		t.Errorf("%+v, %v", end, err)
	}
}

// A process does not outlive the test that started it: the pipe to it closes
// when the test process ends, however it ends.
func TestStart_aProcessDiesWithItsTest(t *testing.T) {
	t.Parallel()
	c := waiting(t)
	if err := c.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if end, err := c.Wait(); err == nil {
		t.Errorf("it ended with %+v", end)
	}
}
