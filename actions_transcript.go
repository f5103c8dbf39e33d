package holdfast

import (
	"context"
	"fmt"
	"slices"

	"github.com/holdfast-dev/holdfast/memory"
	"github.com/holdfast-dev/holdfast/session"
)

// ClearSession empties transcript, window and summary and abandons an
// interrupted execution. Everything else stays, and the log keeps all of it.
type ClearSession struct{}

// Name is ClearSession.
func (ClearSession) Name() string               { return "ClearSession" }
func (ClearSession) statuses() []session.Status { return onlyOpen }
func (ClearSession) changesConversation()       {}

// Execute clears.
func (ClearSession) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	return s.Cleared(actionTime(ctx))
}

// RewindSession makes a session's state what it was at a version. Nothing is
// removed: rewinding to a later version undoes it. Status, name, owner, usage
// and counters stay. It needs a store with a log.
type RewindSession struct {
	To int64 `json:"to"`
}

// Name is RewindSession.
func (RewindSession) Name() string               { return "RewindSession" }
func (RewindSession) statuses() []session.Status { return onlyOpen }
func (RewindSession) changesConversation()       {}

// Execute rewinds.
func (a RewindSession) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	env, err := requireEnv(ctx, a)
	if err != nil {
		return s, err
	}
	rt := env.x.rt
	if rt.logs == nil {
		return s, rt.unsupported("rewinding")
	}
	target, err := rt.logs.LoadAt(ctx, env.x.ref, a.To)
	if err != nil {
		return s, err
	}
	return s.Rewound(target, env.Now())
}

// PruneSession moves the window by a strategy. Nothing is deleted.
type PruneSession struct {
	Strategy session.Strategy `json:"strategy"`
	Limit    int              `json:"limit"`
}

// Name is PruneSession.
func (PruneSession) Name() string               { return "PruneSession" }
func (PruneSession) statuses() []session.Status { return onlyOpen }

// Execute moves the window.
func (a PruneSession) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	env, err := requireEnv(ctx, a)
	if err != nil {
		return s, err
	}
	return memory.Prune(ctx, s, a.Strategy, a.Limit, env.x.rt.pruneWith(s))
}

// WidenWindow moves the window back to the group that holds a change, 0 for
// everything, so that every prune can be undone.
type WidenWindow struct {
	FromSeq int64 `json:"fromSeq"`
}

// Name is WidenWindow.
func (WidenWindow) Name() string               { return "WidenWindow" }
func (WidenWindow) statuses() []session.Status { return onlyOpen }

// Execute moves the window.
func (a WidenWindow) Execute(ctx context.Context, s session.Session) (session.Session, error) {
	env, err := requireEnv(ctx, a)
	if err != nil {
		return s, err
	}
	rt, window := env.x.rt, s.Window()
	if a.FromSeq < 0 || a.FromSeq > window.FromSeq {
		return s, &session.InvalidError{Field: "fromSeq", Reason: fmt.Sprintf("%d is not between 0 and the window's start %d", a.FromSeq, window.FromSeq)}
	}
	messages := s.Messages()
	if s.Partial() && rt.logs != nil {
		whole, err := rt.logs.LoadWhole(ctx, env.x.ref, 0)
		if err != nil {
			return s, err
		}
		tail := slices.DeleteFunc(messages, func(m session.Message) bool { return m.Seq <= whole.Seq() })
		messages = append(whole.Messages(), tail...)
	}
	moved := session.WindowMoved{From: window.FromSeq, To: a.FromSeq}
	for _, g := range session.Groups(messages) {
		first := messages[g.From]
		if a.FromSeq > 0 && messages[g.To-1].Seq >= a.FromSeq {
			moved.To = first.Seq
			break
		}
		if a.FromSeq > 0 && (first.Role == session.RoleSystem || first.Role == session.RoleDeveloper) {
			moved.Keep = append(moved.Keep, first.Seq)
		}
	}
	s, err = s.With(env.Now(), moved)
	if err != nil || !s.Partial() {
		return s, err
	}
	// What is returned has the messages it shows, as if it had been loaded so.
	return session.AttachMessages(s, slices.DeleteFunc(messages, func(m session.Message) bool { return !s.Shown(m.Seq) }))
}
