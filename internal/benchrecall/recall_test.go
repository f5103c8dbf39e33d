package benchrecall

import (
	"os"
	"testing"

	"github.com/holdfast-dev/holdfast/memory"
)

// With default options and without a network, an agent remembers what it was told
// in English. The constants of the embedder were chosen by these questions, so this
// guards against getting worse; unseen.txt says how good recall is.
func TestRecall_findsEnglishFactsByDefault(t *testing.T) {
	t.Parallel()
	measured, err := measure(t.Context(), t.TempDir(), []string{"english"}, []memory.Mode{memory.Hybrid}, paraphrase, name, unrelated)
	if err != nil {
		t.Fatal(err)
	}
	found := measured["english"][memory.Hybrid]
	for kind, least := range map[string]float64{paraphrase: 0.9, name: 1} {
		c := found[kind]
		t.Logf("%s: %d of %d", kind, c.at5, c.asked)
		if got := float64(c.at5) / float64(c.asked); got < least {
			t.Errorf("%s: %.2f found among five, want %.2f; not found: %q", kind, got, least, c.unfound)
		}
	}
	c := found[unrelated]
	if got := float64(c.answered) / float64(c.asked); got > 0.05 {
		t.Errorf("%.2f of unrelated questions are answered: %.120q", got, c.answerings)
	}
}

// make bench-recall writes the page.
func TestRecall_writesThePage(t *testing.T) {
	if os.Getenv("HOLDFAST_BENCH_RECALL") == "" {
		t.Skip("only make bench-recall measures everything")
	}
	measured, err := measure(t.Context(), t.TempDir(), languages, modes, paraphrase, name, long, unrelated, unanswered)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", measured.format())
	const path = "../../docs/performance.md"
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	next, err := replaceSection(string(page), measured.format())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(next), 0o644); err != nil {
		t.Fatal(err)
	}
}
