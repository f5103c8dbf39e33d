package holdfast

import (
	"context"
	"errors"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// Overview is what a listing says about a chat besides its header. A header
// knows nothing of what an execution has written since the last version.
type Overview struct {
	FirstMessage string `json:"firstMessage,omitempty" doc:"Of a chat without a name: the beginning of its first message, on one line"`
	Messages     int    `json:"messages" doc:"With those of an execution that was interrupted"`
	Interrupted  bool   `json:"interrupted,omitempty" doc:"Its execution was interrupted, and nobody works on it"`
}

const (
	// firstMessageLength is how many characters of a first message are shown.
	firstMessageLength = 60
	// firstChanges is how many changes of a log are looked at for the first message.
	firstChanges = 10
)

// Overviews returns what a listing says about the chats among some sessions, by
// their ids: no hooks, no events. A chat that cannot be read is left out.
func (rt *Runtime) Overviews(ctx context.Context, listed session.Infos) (map[string]Overview, error) {
	interrupted := map[string]bool{}
	if rt.tails != nil && len(listed) > 0 {
		refs, err := rt.tails.Interrupted(ctx, rt.who.Tenant)
		if err != nil {
			return nil, err
		}
		for _, ref := range refs {
			interrupted[ref.ID] = true
		}
	}
	overviews := map[string]Overview{}
	for _, i := range listed {
		if i.Kind != session.KindChat {
			continue
		}
		o, err := rt.overview(ctx, i, interrupted[i.ID])
		switch {
		case err == nil:
			overviews[i.ID] = o
		case !errors.Is(err, session.ErrNotFound) && !errors.Is(err, session.ErrCorrupt) && !errors.Is(err, session.ErrNewerFormat):
			return nil, err
		}
	}
	return overviews, nil
}

// overview returns the overview of one chat. Open says that it has an open
// execution that nobody works on: one that waits for responses, or one that was
// interrupted.
func (rt *Runtime) overview(ctx context.Context, i session.Info, open bool) (Overview, error) {
	o := Overview{Messages: i.MessageCount}
	ref := store.Ref{Tenant: rt.who.Tenant, ID: i.ID}
	named := i.Name != ""
	var s session.Session
	if open || !named && rt.logs == nil {
		var err error
		if s, err = rt.store.Load(ctx, ref, rt.tails != nil); err != nil {
			return o, err
		}
		o.Messages = s.Info().MessageCount
		o.Interrupted = open && i.Status != session.Deleted && (!s.Waiting() || s.Info().Pending == 0)
	}
	switch {
	case named:
		return o, nil
	case rt.logs == nil:
		for n := range s.Len() {
			if m := s.Message(n); m.Role == session.RoleUser {
				o.FirstMessage = shorten(m.Content.Text())
				break
			}
		}
		return o, nil
	}
	first, err := rt.logs.Log(ctx, ref, 0, firstChanges)
	for _, entry := range first {
		if added, ok := entry.Change.(session.MessageAdded); ok && added.Message.Role == session.RoleUser {
			o.FirstMessage = shorten(added.Message.Content.Text())
			break
		}
	}
	return o, err
}

// shorten returns the beginning of a text on one line.
func shorten(text string) string {
	line := []rune(strings.Join(strings.Fields(text), " "))
	if len(line) > firstMessageLength {
		line = append(line[:firstMessageLength-1], '…')
	}
	return string(line)
}
