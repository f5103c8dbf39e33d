package cli

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/document"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

const refHelp = "REF is a session's id, the beginning of it (4 characters or more) or its name."

// shortID returns enough of a generated id to tell it from others. An id somebody
// chose is returned whole.
func shortID(id string) string {
	if uuid.Validate(id) == nil {
		return id[:8]
	}
	return id
}

// title returns how a session is called in a sentence.
func title(i session.Info) string {
	if i.Name == "" {
		return shortID(i.ID)
	}
	return shortID(i.ID) + " “" + oneLine(i.Name) + "”"
}

// continueCommand returns the command that continues an interrupted session.
func continueCommand(kind session.Kind, id string) string {
	switch kind {
	case session.KindTask:
		return "holdfast task resume " + shortID(id)
	case session.KindWorkflow:
		return "holdfast run --resume " + shortID(id)
	}
	return "holdfast chat --session " + shortID(id)
}

// maxNames is how many sessions are looked at for a name that was meant.
const maxNames = 200

// Resolve finds a session. Where there is none, the error knows a name that was
// likely meant.
func (e *env) Resolve(ctx context.Context, ref string) (session.Info, error) {
	info, err := e.sessions.Resolve(ctx, ref)
	if !errors.Is(err, session.ErrNotFound) {
		return info, err
	}
	page, failed := e.List(ctx, store.Query{Kinds: session.Kinds(), Limit: maxNames})
	if failed != nil {
		return info, err // what was looked for says more
	}
	var names []string
	for _, i := range page.Items {
		if i.Name != "" {
			names = append(names, i.Name)
		}
	}
	if near := document.Nearest(ref, names); near != "" {
		err = &nearlyError{err, near}
	}
	return info, err
}

// nearlyError is a session that is not there, and one whose name is nearly that.
type nearlyError struct {
	error
	near string
}

func (e *nearlyError) Unwrap() error { return e.error }

// onSession makes the work of a command whose first argument is a REF.
func (p *program) onSession(work func(ctx context.Context, e *env, i session.Info, args []string) error) func(*cobra.Command, []string) error {
	return p.inEnv(func(ctx context.Context, e *env, args []string) error {
		info, err := e.Resolve(ctx, args[0])
		if err != nil {
			return err
		}
		return work(ctx, e, info, args[1:])
	})
}
