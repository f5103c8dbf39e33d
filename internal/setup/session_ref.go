package setup

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/holdfast-dev/holdfast/internal/document"
	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// MaxNames is how many sessions are looked at for a name that was meant.
const MaxNames = 200

// Resolve finds a session. Where there is none, the error knows a name that was
// likely meant; where there are several, it knows them.
func (e *Env) Resolve(ctx context.Context, ref string) (session.Info, error) {
	info, err := e.sessions.Resolve(ctx, ref)
	var several *session.AmbiguousError
	if errors.As(err, &several) {
		return info, e.severalError(ctx, several)
	}
	if !errors.Is(err, session.ErrNotFound) {
		return info, err
	}
	page, failed := e.List(ctx, store.Query{Kinds: session.Kinds(), Limit: MaxNames})
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
		err = &NearlyError{err, near}
	}
	return info, err
}

// severalError reads what a reference fits.
func (e *Env) severalError(ctx context.Context, err *session.AmbiguousError) error {
	known := &SeveralError{AmbiguousError: err}
	for _, id := range err.Candidates {
		info, failed := e.sessions.Resolve(ctx, id)
		if failed != nil {
			return err // the ids say more
		}
		known.Among = append(known.Among, info)
	}
	return known
}

// SeveralError is a reference that fits several sessions, and which they are.
type SeveralError struct {
	*session.AmbiguousError
	Among []session.Info
}

func (e *SeveralError) Unwrap() error { return e.AmbiguousError }

// NearlyError is a session that is not there, and one whose name is nearly that.
type NearlyError struct {
	error
	Near string
}

func (e *NearlyError) Unwrap() error { return e.error }

// OnSession makes the work of a command whose first argument is a REF.
func (p *Setup) OnSession(work func(ctx context.Context, e *Env, i session.Info, args []string) error) func(*cobra.Command, []string) error {
	return p.InEnv(func(ctx context.Context, e *Env, args []string) error {
		info, err := e.Resolve(ctx, args[0])
		if err != nil {
			return err
		}
		return work(ctx, e, info, args[1:])
	})
}
