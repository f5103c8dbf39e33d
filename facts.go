package holdfast

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// ExtractFacts extracts the facts of a session's turns that were not looked at
// yet, oldest first, and counts those turns. The runtime does so by itself in the
// background after each turn; after a crash the session's next turn,
// ExtractOwedFacts, or this call, does what was left. A session whose definition
// asks for no facts, or for those of a user that it has not, has none.
//
// The model's answer about a turn is written first, and once: whoever takes up
// the work after a crash, or does it at the same time, carries out that answer.
// So a turn is never extracted twice, and every fact is added and superseded
// once. If the owner is forgotten meanwhile, nothing stays of what was found.
func (rt *Runtime) ExtractFacts(ctx context.Context, id string) (int, error) {
	ctx, done, err := rt.beginCall(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	ref, err := rt.ref(id)
	if err != nil {
		return 0, err
	}
	select { // whoever waits finds done what was found meanwhile
	case rt.facts.making <- struct{}{}:
		defer func() { <-rt.facts.making }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	owed, err := rt.readOwed(ctx, ref)
	if err != nil {
		return 0, err
	}
	s, err := rt.store.Load(ctx, ref, false)
	if err != nil {
		return 0, err
	}
	if !extractsFacts(s) || rt.memories == nil {
		return 0, rt.settleOwed(ctx, owed, s)
	}
	x := factRun{rt: rt, s: s, policy: s.Definition().Memory.Facts, h: rt.memory(s.Info())}
	if x.owner, err = x.h.owner(memory.Scope(x.policy.MemoryScope())); err != nil {
		return 0, err
	}
	turns, err := x.newTurns(ctx)
	if err != nil {
		return 0, err
	}
	for i, turn := range turns {
		if err := x.extract(ctx, turn); err != nil {
			return i, err
		}
	}
	return len(turns), rt.settleOwed(ctx, owed, s)
}

// extractsFacts reports whether a session's definition asks for facts that it
// can have.
func extractsFacts(s session.Session) bool {
	policy := s.Definition().Memory
	return policy != nil && policy.Facts != nil && (policy.Facts.MemoryScope() != string(memory.ScopeUser) || s.Info().UserID != "")
}

// factRun is one extraction.
type factRun struct {
	rt     *Runtime
	s      session.Session
	policy *session.Facts
	h      *memoryHandle
	owner  store.Owner
}

// turn is what was said in one execution.
type turn struct {
	executionID string
	messages    []session.Message
}

// factJournal is what a model found in a turn, nil before it has answered. It is
// there before the model is asked: a journal that is gone afterwards tells that
// the owner was forgotten. Applied says that its facts are stored.
type factJournal struct {
	SessionID   string        `json:"sessionId"`
	ExecutionID string        `json:"executionId"`
	Found       []memory.Fact `json:"found"`
	Applied     bool          `json:"applied"`
}

// key is that of the turn's journal. It is short, because keys are searched with
// what is stored under them.
func (x *factRun) key(t turn) string {
	sum := sha256.Sum256([]byte(x.s.ID() + "\x00" + t.executionID))
	return memory.FactSpace + "/" + hex.EncodeToString(sum[:6])
}

// newTurns are the finished turns after the last one that was extracted, which
// may be extracted in part, and after the owner was forgotten.
func (x *factRun) newTurns(ctx context.Context) ([]turn, error) {
	mark, _, err := x.rt.memories.Entry(ctx, x.owner, memory.FactSpace, 0)
	if err != nil {
		return nil, err
	}
	var forgotten forgottenMark
	_ = json.Unmarshal(mark.Value, &forgotten) // there is none, or somebody else's value
	all := turnsOf(x.s)
	for i := len(all) - 1; i >= 0; i-- {
		if first := all[i].messages[0]; !first.CreatedAt.After(forgotten.At) {
			return all[i+1:], nil
		}
		e, found, err := x.rt.memories.Entry(ctx, x.owner, x.key(all[i]), 0)
		if err != nil {
			return nil, err
		}
		var journal factJournal
		if found && json.Unmarshal(e.Value, &journal) == nil {
			if journal.Applied {
				i++
			}
			return all[i:], nil
		}
	}
	return all, nil
}

// forgottenMark is all that stays of an owner with facts or transcripts who was forgotten: what
// was said before is not to be extracted again.
type forgottenMark struct {
	At time.Time `json:"forgottenAt"`
}

// markForgotten writes the mark, and removes what was extracted between the
// removal of everything and the mark.
func (rt *Runtime) markForgotten(ctx context.Context, o store.Owner) error {
	now := rt.config.Now()
	raw, err := session.JSON(forgottenMark{session.Instant(now)})
	if err == nil {
		_, err = rt.memories.Remember(ctx, o, store.Memo{Key: memory.FactSpace, Value: raw, At: now})
	}
	for err == nil {
		var left []store.Entry
		if left, err = rt.memories.Entries(ctx, o, memory.FactSpace, memory.FactSpace, 0); len(left) == 0 {
			break
		}
		for _, e := range left {
			if err == nil {
				_, err = rt.memories.Forget(ctx, o, e.Key, nil)
			}
		}
	}
	return err
}

// turnsOf returns what was said in each finished execution: the texts of users
// and the final answers.
func turnsOf(s session.Session) []turn {
	var turns []turn
	for _, m := range s.Messages() {
		said := m.Role == session.RoleUser || m.Role == session.RoleAssistant
		if !said || m.Trace || m.ExecutionID == "" || strings.TrimSpace(m.Content.Text()) == "" || s.Running() && m.ExecutionID == s.Execution().ID {
			continue
		}
		if n := len(turns); n == 0 || turns[n-1].executionID != m.ExecutionID {
			turns = append(turns, turn{executionID: m.ExecutionID})
		}
		last := &turns[len(turns)-1]
		last.messages = append(last.messages, m)
	}
	return turns
}

// extract asks the model about a turn, where nobody has, and stores what it
// found.
func (x *factRun) extract(ctx context.Context, t turn) error {
	key := x.key(t)
	journal := factJournal{SessionID: x.s.ID(), ExecutionID: t.executionID}
	e, found, err := x.rt.memories.Entry(ctx, x.owner, key, 0)
	if err == nil && !found {
		e, found, err = x.writeJournal(ctx, key, journal, 0)
	}
	if err != nil || !found {
		return err
	}
	if err := json.Unmarshal(e.Value, &journal); err != nil || journal.Applied {
		return err
	}
	if journal.Found == nil {
		if journal.Found, err = x.ask(ctx, t, key); err != nil {
			return err
		}
		if e, found, err = x.writeJournal(ctx, key, journal, e.Version); err != nil || !found {
			return err
		}
		if err := json.Unmarshal(e.Value, &journal); err != nil || journal.Applied {
			return err
		}
	}
	for _, f := range journal.Found {
		if err := x.store(ctx, f); err != nil {
			return err
		}
	}
	journal.Applied = true
	if _, found, err = x.writeJournal(ctx, key, journal, e.Version); err != nil || found {
		return err
	}
	for _, f := range journal.Found { // the owner was forgotten while they were stored
		if _, err := x.rt.memories.Forget(ctx, x.owner, f.Key, nil); err != nil {
			return err
		}
	}
	return nil
}

// writeJournal writes the next version of a journal and returns it, or the one
// that somebody else wrote meanwhile. It is not found if the owner was
// forgotten.
func (x *factRun) writeJournal(ctx context.Context, key string, j factJournal, version int64) (store.Entry, bool, error) {
	e, err := x.write(ctx, key, j, version)
	if errors.Is(err, session.ErrConflict) {
		return x.rt.memories.Entry(ctx, x.owner, key, 0)
	}
	return e, err == nil, err
}

// write writes the next version of an entry.
func (x *factRun) write(ctx context.Context, key string, value any, version int64) (store.Entry, error) {
	raw, err := session.JSON(value)
	if err == nil {
		raw, err = x.rt.redactJSON(raw)
	}
	if err != nil {
		return store.Entry{}, err
	}
	return x.rt.memories.Remember(ctx, x.owner, store.Memo{Key: key, Value: raw, IfVersion: &version, SessionID: x.s.ID(), At: x.rt.config.Now()})
}

// store adds a fact and ends the one that it supersedes. What was done already
// stays as it is.
func (x *factRun) store(ctx context.Context, f memory.Fact) error {
	key := f.Key
	f.Key = ""
	if _, err := x.write(ctx, key, f, 0); err != nil && !errors.Is(err, session.ErrConflict) {
		return err
	}
	for f.Replaces != "" {
		e, _, err := x.rt.memories.Entry(ctx, x.owner, f.Replaces, 0)
		if err != nil {
			return err
		}
		old, is := memory.FactOf(entryOf("", e))
		if !is || old.ReplacedBy != "" { // it was forgotten, or is superseded
			return nil
		}
		old.Key, old.ReplacedBy = "", key
		if old.ValidTo == nil || old.ValidTo.After(f.ValidFrom) {
			old.ValidTo = &f.ValidFrom
		}
		if _, err = x.write(ctx, f.Replaces, old, e.Version); !errors.Is(err, session.ErrConflict) {
			return err
		}
	}
	return nil
}

// factsTimeout bounds how long a model may take for the facts of a turn.
const factsTimeout = 2 * time.Minute

// maxKnown is how many known facts a model is told at most.
const maxKnown = 30

// ask asks the model what facts a turn has. An answer that is no list of facts
// has none: asking again would as a rule bring the same.
func (x *factRun) ask(ctx context.Context, t turn, key string) ([]memory.Fact, error) {
	ctx, cancel := context.WithTimeout(ctx, factsTimeout)
	defer cancel()
	known, err := x.known(ctx, t)
	if err != nil {
		return nil, err
	}
	name, model, err := x.rt.Model(cmp.Or(x.policy.Model, x.s.Model()))
	if err != nil {
		return nil, err
	}
	system, text := memory.FactsRequest(x.policy.Prompt, t.messages, known)
	response, err := model.Infer(ctx, llm.Request{
		Model: name, System: system, Agent: x.s.Info().AgentName, SessionID: x.s.ID(), Inference: x.s.InferenceCount(),
		Messages: []session.Message{{ID: x.rt.config.NewID(), Role: session.RoleUser, CreatedAt: x.rt.config.Now(), Content: session.Text(text)}},
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s for facts: %w", name, err)
	}
	found, err := memory.ParseFacts(response.Content.Text(), x.s, t.messages, known, func(i int) string { return fmt.Sprintf("%s-%d", key, i+1) })
	if err != nil {
		x.rt.config.Logger.Warn("no facts in what the model answered", "session", x.s.ID(), "model", name, "error", x.rt.redactText(err.Error()))
		found = nil
	}
	return append([]memory.Fact{}, found...), nil
}

// known are the facts that have to do with a turn.
func (x *factRun) known(ctx context.Context, t turn) ([]memory.Fact, error) {
	var said []string
	for _, m := range t.messages {
		said = append(said, m.Content.Text())
	}
	none := 0.0
	hits, err := x.h.Recall(ctx, strings.Join(said, "\n"), memory.RecallOptions{
		Scopes: []memory.Scope{memory.Scope(x.policy.MemoryScope())}, Prefix: memory.FactSpace, Limit: maxKnown, Threshold: &none,
	})
	var known []memory.Fact
	for _, hit := range hits {
		if hit.Fact != nil {
			known = append(known, *hit.Fact)
		}
	}
	return known, err
}

// factQueue is the sessions whose last turns wait to be looked at for facts.
type factQueue struct {
	waiting []store.Ref   // guarded by core.mu
	wake    chan struct{} // holds one wake-up; nil: nobody works
	making  chan struct{} // holds a value while facts are extracted
}

// wakeFacts tells the background that a turn was saved.
func (rt *Runtime) wakeFacts(s session.Session) {
	if rt.memories == nil || s.Running() || !extractsFacts(s) {
		return
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if rt.closing.Err() != nil {
		return
	}
	q := &rt.facts
	if ref := store.RefOf(s); !slices.Contains(q.waiting, ref) {
		q.waiting = append(q.waiting, ref)
	}
	if q.wake == nil {
		q.wake = make(chan struct{}, 1)
		rt.work.Go(rt.extractInBackground)
	}
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// extractInBackground extracts facts until the runtime is closed. A failure is
// tried again with the session's next turn, or by ExtractOwedFacts.
func (rt *Runtime) extractInBackground() {
	for {
		select {
		case <-rt.closing.Done():
			return
		case <-rt.facts.wake:
		}
		for {
			rt.mu.Lock()
			waiting := rt.facts.waiting
			rt.facts.waiting = nil
			rt.mu.Unlock()
			if len(waiting) == 0 {
				break
			}
			for _, ref := range waiting {
				if _, err := rt.For(Identity{Tenant: ref.Tenant}).ExtractFacts(rt.closing, ref.ID); err != nil && rt.closing.Err() == nil {
					rt.config.Logger.Warn("facts not extracted yet", "session", ref.ID, "error", rt.redactText(err.Error()))
				}
			}
		}
	}
}
