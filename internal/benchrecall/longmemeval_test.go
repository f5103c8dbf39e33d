package benchrecall

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The harness is tried on texts of our own in the format of the data set.
func TestLongMemEval_onOurOwnTexts(t *testing.T) {
	t.Parallel()
	all, err := readInstances("testdata/longmemeval.json")
	if err != nil {
		t.Fatal(err)
	}
	found, err := retrieve(t.Context(), t.TempDir(), all)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", formatRetrieval(found))
	asked := 0
	for kind, r := range found {
		asked += r.asked
		if kind == unanswered {
			continue
		}
		if r.sessions != [2]int{r.asked, r.asked} || r.turns[0] > r.turns[1] || r.turns[1] > r.asked || r.tokens == 0 {
			t.Errorf("%s: %+v; every session should be among the first five passages", kind, *r)
		}
	}
	if asked != len(all) || len(found) != 7 {
		t.Errorf("asked %d of %d questions of %d types", asked, len(all), len(found))
	}
}

// What is not found counts as missing: by its session and by its message.
func TestLongMemEval_countsWhatIsMissing(t *testing.T) {
	t.Parallel()
	all, err := readInstances("testdata/longmemeval.json")
	if err != nil {
		t.Fatal(err)
	}
	i := all[0]
	if sessions, turns := i.missing(nil, nil); sessions != len(i.AnsweredIn) || sessions == 0 || turns == 0 {
		t.Errorf("%d sessions and %d messages are missing where nothing was found", sessions, turns)
	}
	bad := filepath.Join(t.TempDir(), "bad.json")
	if err := os.WriteFile(bad, []byte(`[{"question_id":"q","question_type":"x","question":"y","haystack_sessions":[[]]}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readInstances(bad); err == nil || !strings.Contains(err.Error(), `question 1 ("q")`) {
		t.Errorf("a data set without ids: %v", err)
	}
}

// make bench-longmemeval DATA=FILE prints what is found in a data set.
func TestLongMemEval_ofAFile(t *testing.T) {
	path := os.Getenv("HOLDFAST_LONGMEMEVAL")
	if path == "" {
		t.Skip("only make bench-longmemeval reads a data set")
	}
	all, err := readInstances(path)
	if err != nil {
		t.Fatal(err)
	}
	found, err := retrieve(t.Context(), t.TempDir(), all)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", formatRetrieval(found))
}
