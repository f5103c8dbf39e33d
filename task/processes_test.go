package task_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/sqlite"
	"github.com/holdfast-dev/holdfast/task"
)

const (
	rivalDB   = "HOLDFAST_TASK_RIVAL_DB"
	rivalDeed = "HOLDFAST_TASK_RIVAL_DEED"
)

// shared is a house on a file that other processes use too.
func shared(t *testing.T, dir string, answer func(context.Context, int, llm.Request) (llm.Response, error)) *house {
	t.Helper()
	st, err := sqlite.Open(context.Background(), filepath.Join(dir, "tasks.db"), sqlite.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	_, write := writer()
	return houseOn(t, st, answer, with(write))
}

// TestChildOfRivals is no test: it is one of the processes that race. It
// prints how many of its calls had an effect.
func TestChildOfRivals(t *testing.T) {
	dir, deed := os.Getenv(rivalDB), os.Getenv(rivalDeed)
	if dir == "" {
		t.Skip("it is run by others")
	}
	h := shared(t, dir, func(ctx context.Context, _ int, _ llm.Request) (llm.Response, error) {
		select { // long enough for the others to come
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
		}
		return says("done"), nil
	})
	var won atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			var err error
			if deed == "resume" {
				var result task.ResumeResult
				if result, err = h.x.Resume(context.Background(), "t1"); err == nil && !result.Already {
					won.Add(1)
				}
			} else {
				approval, action, _ := strings.Cut(deed, "=")
				if _, err = h.x.Respond(context.Background(), "t1", responseOf(approval, action, fmt.Sprint(os.Getpid())), task.RespondOptions{}); err == nil {
					won.Add(1)
				}
			}
			if err != nil && !errors.Is(err, session.ErrTaskTerminal) && !errors.Is(err, session.ErrConflict) && !errors.Is(err, session.ErrResponded) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	fmt.Printf("won %d\n", won.Load())
}

// rivals runs processes that do their deeds at the same time, and is how many
// calls each of them won.
func rivals(t *testing.T, dir string, deeds ...string) (won []int) {
	t.Helper()
	won = make([]int, len(deeds))
	var wg sync.WaitGroup
	for i, deed := range deeds {
		wg.Go(func() {
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestChildOfRivals$") //nolint:gosec // it is this very program
			child.Env = append(os.Environ(), rivalDB+"="+dir, rivalDeed+"="+deed)
			out, err := child.CombinedOutput()
			found := regexp.MustCompile(`won (\d+)`).FindSubmatch(out)
			if err != nil || found == nil {
				t.Errorf("the child: %v\n%s", err, out)
				return
			}
			if _, err := fmt.Sscan(string(found[1]), &won[i]); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	return won
}

func TestResume_ofSeveralProcessesExactlyOneCallMovesTheRow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := shared(t, dir, script("call:c1:write:{}"))
	h.start(job())
	if _, err := h.respond(h.open().ID, "deny_once", task.RespondOptions{}); err != nil {
		t.Fatal(err)
	}
	before := h.count("task_resumed")
	won := rivals(t, dir, "resume", "resume")
	if won[0]+won[1] != 1 || h.count("task_resumed") != before+1 || h.count("task_completed") != 1 {
		t.Errorf("won are %v, events %v", won, h.events())
	}
}

func TestRespond_ofSeveralProcessesTheFirstAnswerCounts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	h := shared(t, dir, script("call:c1:write:{}"))
	h.start(job())
	id := h.open().ID
	won := rivals(t, dir, id+"=allow_once", id+"=deny_once")
	answers := h.responded()
	if len(answers) != 1 {
		t.Fatalf("the responses are %+v, events %v", answers, h.events())
	}
	allowed := answers[0].Choice == "allow_once"
	// Those of one process say the same in the same name: they are told apart
	// from the other process, not from each other.
	if (won[0] > 0) == (won[1] > 0) || (won[0] > 0) != allowed {
		t.Errorf("won are %v, the answer is %s", won, answers[0].Choice)
	}
}
