package strands

import (
	"context"
	"fmt"
	"path/filepath"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/session"
)

// ExportOptions say what of a run is exported.
type ExportOptions struct {
	At int64 // the version; 0: everything that is written, an open tail included
}

// Reader reads sessions: a holdfast.Runtime, or the client of a server.
type Reader interface {
	Get(ctx context.Context, id string, opts ...holdfast.Option) (session.Session, error)
}

// Export writes a run as a session directory below dir, where strands-cli
// lists, shows and resumes it, and Import reads it back. A session that is
// there already is a session.ConflictError.
func Export(ctx context.Context, from Reader, id, dir string, o ExportOptions) (Dir, error) {
	opts := []holdfast.Option{holdfast.Whole(), holdfast.WithTail()}
	if o.At != 0 {
		opts = []holdfast.Option{holdfast.Whole(), holdfast.At(o.At)}
	}
	s, err := from.Get(ctx, id, opts...)
	if err != nil {
		return "", err
	}
	l, err := newLayout(s) //nolint:contextcheck // to look at a log waits for nothing
	if err != nil {
		return "", fmt.Errorf("export session %s: %w", id, err)
	}
	d := Dir(filepath.Join(dir, sessionPrefix+id))
	unlock, err := d.Lock()
	if err != nil {
		return "", err
	}
	there, err := d.Exists()
	switch {
	case err != nil:
	case there:
		err = &session.ConflictError{ID: id, Reason: session.ReasonExists}
	default:
		err = l.write(d)
	}
	if unlockErr := unlock(); err == nil {
		err = unlockErr
	}
	if err != nil {
		return "", fmt.Errorf("export session %s: %w", id, err)
	}
	return d, nil
}
