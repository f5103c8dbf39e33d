package holdfast

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// A turn whose facts are to be extracted is noted before it is saved, and the
// note is removed after the extraction. So whatever a process leaves undone is
// found without looking at every session.

// owedFacts is the note: the facts of a session's execution are owed.
type owedFacts struct {
	Tenant      string    `json:"tenant"`
	SessionID   string    `json:"sessionId"`
	ExecutionID string    `json:"executionId"`
	Since       time.Time `json:"since"`
	TakenAt     time.Time `json:"takenAt"` // by whoever extracts them
}

// factsOwner has the notes of all tenants. None may belong to its tenant.
var factsOwner = store.Owner{Tenant: "holdfast-facts", Scope: store.ScopeSpace, Name: "owed"}

// factsPatience is how long an extraction is left to whoever has taken it: longer
// than the model may take.
const factsPatience = factsTimeout + time.Minute

// owedKey is the key of a session's note.
func owedKey(ref store.Ref) string {
	sum := sha256.Sum256([]byte(ref.Tenant + "\x00" + ref.ID))
	return memory.FactSpace + "/" + hex.EncodeToString(sum[:16])
}

// noteFacts notes that facts of a turn will be owed, if the action has ended one.
// A turn is saved without the note, too: then its facts may wait for the next.
func (rt *Runtime) noteFacts(ctx context.Context, loaded, s session.Session) {
	execution := endedExecution(s)
	if execution == "" || execution == endedExecution(loaded) || rt.memories == nil || !extractsFacts(s) {
		return
	}
	ctx, done := store.Finish(ctx) // a turn that was cancelled is saved, too
	defer done()
	now := session.Instant(rt.config.Now())
	_, err := rt.writeOwed(ctx, owedFacts{Tenant: s.Tenant(), SessionID: s.ID(), ExecutionID: execution, Since: now, TakenAt: now}, nil)
	if err != nil {
		rt.config.Logger.Warn("that a turn has facts to extract was not noted", "session", s.ID(), "error", rt.redactText(err.Error()))
	}
}

// endedExecution is the id of a session's last execution, "" if there is none or
// it has not ended.
func endedExecution(s session.Session) string {
	if x := s.Execution(); x != nil && !s.Running() {
		return x.ID
	}
	return ""
}

// writeOwed writes the next version of a note.
func (rt *Runtime) writeOwed(ctx context.Context, owed owedFacts, ifVersion *int64) (store.Entry, error) {
	raw, err := session.JSON(owed)
	if err != nil {
		return store.Entry{}, err
	}
	key := owedKey(store.Ref{Tenant: owed.Tenant, ID: owed.SessionID})
	return rt.memories.Remember(ctx, factsOwner, store.Memo{Key: key, Value: raw, IfVersion: ifVersion, At: rt.config.Now()})
}

// readOwed reads a session's note. It must be read before the session: what is
// saved later has a note of its own.
func (rt *Runtime) readOwed(ctx context.Context, ref store.Ref) (store.Entry, error) {
	if rt.memories == nil {
		return store.Entry{}, nil
	}
	e, _, err := rt.memories.Entry(ctx, factsOwner, owedKey(ref), 0)
	return e, err
}

// settleOwed removes a note whose turn was extracted, or was never saved.
func (rt *Runtime) settleOwed(ctx context.Context, e store.Entry, s session.Session) error {
	if e.Version == 0 {
		return nil
	}
	var owed owedFacts
	err := json.Unmarshal(e.Value, &owed)
	if err == nil && endedExecution(s) != owed.ExecutionID && rt.config.Now().Sub(owed.Since) < factsPatience {
		return nil // it is about to be saved
	}
	return rt.removeOwed(ctx, e)
}

// removeOwed removes a note unless a later turn has written it anew.
func (rt *Runtime) removeOwed(ctx context.Context, e store.Entry) error {
	_, err := rt.memories.Forget(ctx, factsOwner, e.Key, &e.Version)
	if errors.Is(err, session.ErrConflict) {
		return nil
	}
	return err
}

// ExtractOwedFacts extracts the facts of turns in all tenants whose processes have
// not done so for some minutes, because they ended or failed, and counts those
// turns. A failure is logged and leaves its turns for a later call. Any number of
// processes may call it at any time: each turn is extracted once.
func (rt *Runtime) ExtractOwedFacts(ctx context.Context) (int, error) {
	ctx, done, err := rt.beginCall(ctx)
	if err != nil || rt.memories == nil {
		return 0, err
	}
	defer done()
	turns := 0
	for after := ""; ; {
		notes, err := rt.memories.Entries(ctx, factsOwner, "", after, 0)
		if err != nil || len(notes) == 0 {
			return turns, err
		}
		for _, e := range notes {
			n, err := rt.extractOwed(ctx, e)
			if turns += n; ctx.Err() != nil {
				return turns, ctx.Err()
			}
			if err != nil {
				rt.config.Logger.Warn("owed facts not extracted yet", "note", e.Key, "error", rt.redactText(err.Error()))
			}
		}
		after = notes[len(notes)-1].Key
	}
}

// extractOwed takes a note that nobody works on and extracts its session's facts.
func (rt *Runtime) extractOwed(ctx context.Context, e store.Entry) (int, error) {
	var owed owedFacts
	if err := json.Unmarshal(e.Value, &owed); err != nil {
		return 0, err
	}
	now := session.Instant(rt.config.Now())
	if now.Sub(owed.TakenAt) < factsPatience {
		return 0, nil
	}
	owed.TakenAt = now
	e, err := rt.writeOwed(ctx, owed, &e.Version)
	if errors.Is(err, session.ErrConflict) { // somebody else has taken it
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	n, err := rt.For(Identity{Tenant: owed.Tenant}).ExtractFacts(ctx, owed.SessionID)
	if errors.Is(err, session.ErrNotFound) {
		return n, rt.removeOwed(ctx, e)
	}
	return n, err
}
