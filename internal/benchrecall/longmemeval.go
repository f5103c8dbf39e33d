package benchrecall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/llm/scripted"
	"github.com/holdfast-dev/holdfast/llm/sentences"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store/sqlite"
)

// instance is one question of a data set in the format of LongMemEval, with the
// conversations that came before it.
type instance struct {
	ID         string         `json:"question_id"` // of one that nothing answers it ends with _abs
	Type       string         `json:"question_type"`
	Question   string         `json:"question"`
	SessionIDs []string       `json:"haystack_session_ids"`
	Dates      []string       `json:"haystack_dates"`
	Sessions   [][]spokenTurn `json:"haystack_sessions"`
	AnsweredIn []string       `json:"answer_session_ids"`
}

// spokenTurn is a message of a conversation.
type spokenTurn struct {
	Role      string `json:"role"`
	Content   string `json:"content"`
	HasAnswer bool   `json:"has_answer"`
}

func (i instance) unanswered() bool { return strings.HasSuffix(i.ID, "_abs") }

// readInstances reads a data set and refuses one that is not in the format.
func readInstances(path string) ([]instance, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []instance
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	for n, i := range all {
		if i.ID == "" || i.Type == "" || i.Question == "" || len(i.Sessions) == 0 || len(i.SessionIDs) != len(i.Sessions) || len(i.Dates) != len(i.Sessions) {
			return nil, fmt.Errorf("read %s: question %d (%q) lacks a field, or its sessions have not one id and one date each", path, n+1, i.ID)
		}
	}
	return all, nil
}

// spoken adds a conversation to a session.
type spoken struct {
	turns []spokenTurn
	at    time.Time
}

// Name is Spoken.
func (spoken) Name() string { return "Spoken" }

// Execute adds the messages. Their ids say where they stand.
func (c spoken) Execute(_ context.Context, s session.Session) (session.Session, error) {
	var changes []session.Change
	for i, turn := range c.turns {
		role := session.RoleUser
		if turn.Role != string(session.RoleUser) {
			role = session.RoleAssistant
		}
		changes = append(changes, session.MessageAdded{Message: session.Message{
			ID: fmt.Sprintf("m-%d", i), Role: role, CreatedAt: c.at.Add(time.Duration(i) * time.Second), Content: session.Text(turn.Content),
		}})
	}
	return s.With(c.at, changes...)
}

// retrieval is what questions of a type found.
type retrieval struct {
	asked    int
	sessions [2]int // questions with all their sessions among the first 5 and 10 passages
	turns    [2]int // likewise, with all messages that have the answer
	tokens   int    // of the first 10 passages
	nothing  int    // questions that found nothing with default options
}

// cuts are the numbers of passages that are looked at.
var cuts = [2]int{5, 10}

// retrieve tells the conversations of each question to a user of their own and
// asks the question in a new session, in a store in a folder.
func retrieve(ctx context.Context, dir string, all []instance) (found map[string]*retrieval, err error) {
	st, err := sqlite.Open(ctx, filepath.Join(dir, "longmemeval.db"), sqlite.Config{})
	if err != nil {
		return nil, err
	}
	rt, err := holdfast.New(holdfast.Config{Store: st, Models: llm.Map{"none": scripted.New()}, Embedder: sentences.Embedder{}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rt.Close(), st.Close()) }() //nolint:contextcheck // closing outlives the context
	found = map[string]*retrieval{}
	for n, i := range all {
		kind := i.Type
		if i.unanswered() {
			kind = unanswered
		}
		if found[kind] == nil {
			found[kind] = &retrieval{}
		}
		if err := found[kind].add(ctx, rt.For(holdfast.Identity{UserID: fmt.Sprintf("user-%d", n)}), i); err != nil {
			return nil, fmt.Errorf("question %s: %w", i.ID, err)
		}
	}
	return found, nil
}

// add asks one question.
func (r *retrieval) add(ctx context.Context, rt *holdfast.Runtime, i instance) error {
	places := map[string]int{} // of the conversations, by session
	for n, turns := range i.Sessions {
		id, err := tell(ctx, rt, turns, i.Dates[n])
		if err != nil {
			return err
		}
		places[id] = n
	}
	if _, err := rt.Embed(ctx); err != nil {
		return err
	}
	asking, err := rt.Create(ctx, session.Definition{Name: "listener", Model: "none"})
	if err != nil {
		return err
	}
	m, err := rt.Memory(ctx, asking.ID())
	if err != nil {
		return err
	}
	o := memory.RecallOptions{Scopes: []memory.Scope{memory.ScopeUser}, Limit: cuts[1]}
	probable, err := m.Recall(ctx, i.Question, o)
	if err != nil {
		return err
	}
	anything := 0.0 // the protocol ranks everything there is
	o.Threshold = &anything
	hits, err := m.Recall(ctx, i.Question, o)
	if err != nil {
		return err
	}
	r.asked++
	if len(probable) == 0 {
		r.nothing++
	}
	for c, cut := range cuts {
		sessions, turns := i.missing(hits[:min(cut, len(hits))], places)
		if sessions == 0 {
			r.sessions[c]++
		}
		if turns == 0 {
			r.turns[c]++
		}
	}
	for _, hit := range hits {
		r.tokens += memory.Estimate(session.Message{Content: session.Text(hit.Text)})
	}
	return nil
}

// tell has a conversation in a session of its own.
func tell(ctx context.Context, rt *holdfast.Runtime, turns []spokenTurn, date string) (id string, err error) {
	at, err := time.Parse("2006/01/02 (Mon) 15:04", date)
	if err != nil {
		return "", err
	}
	s, err := rt.Create(ctx, session.Definition{Name: "listener", Model: "none"})
	if err == nil {
		_, err = rt.Execute(ctx, s.ID(), spoken{turns, at})
	}
	return s.ID(), err
}

// missing counts the sessions and the messages with the answer that are not among
// hits.
func (i instance) missing(hits []memory.Hit, places map[string]int) (sessions, turns int) {
	in, said := map[string]bool{}, map[string]bool{}
	for _, hit := range hits {
		if n, ok := places[hit.SessionID]; ok {
			in[i.SessionIDs[n]] = true
			said[fmt.Sprintf("%d %s", n, hit.ID)] = true
		}
	}
	for _, id := range i.AnsweredIn {
		if !in[id] {
			sessions++
		}
	}
	for n, spoken := range i.Sessions {
		for k, turn := range spoken {
			if turn.HasAnswer && !said[fmt.Sprintf("%d m-%d", n, k)] {
				turns++
			}
		}
	}
	return sessions, turns
}

// formatRetrieval is what was found as a table, by type of question.
func formatRetrieval(found map[string]*retrieval) string {
	var b strings.Builder
	b.WriteString("| type | questions | sessions @5 | @10 | messages @5 | @10 | tokens @10 | nothing found |\n|---|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, kind := range slices.Sorted(maps.Keys(found)) {
		r := found[kind]
		fmt.Fprintf(&b, "| %s | %d |", kind, r.asked)
		for _, n := range []int{r.sessions[0], r.sessions[1], r.turns[0], r.turns[1]} {
			if kind == unanswered {
				b.WriteString(" – |")
			} else {
				fmt.Fprintf(&b, " %s |", share(n, r.asked))
			}
		}
		fmt.Fprintf(&b, " %d | %s |\n", r.tokens/r.asked, share(r.nothing, r.asked))
	}
	return b.String()
}
