package tool

import (
	"context"
	"errors"
)

// Permit is what permissions let one call do beyond what its tool may always
// do. A tool finds it in its context; the zero value permits nothing more.
type Permit struct {
	// Outside has the paths outside the workspace that the call may use, as its
	// arguments name them, with where they lead: absolute, without links.
	Outside map[string]string
	// Host says whether a request may be redirected to a host, or why not. Nil:
	// it stays on the host that it was made for.
	Host func(host string) error
	// Denied are the paths that rules deny to programs: none that the call starts
	// may reach them.
	Denied []string
}

type permitKey struct{}

// WithPermit gives the calls made with a context a permit.
func WithPermit(ctx context.Context, p Permit) context.Context {
	return context.WithValue(ctx, permitKey{}, p)
}

// PermitOf returns the permit of a call. False says that there are no
// permissions here that could limit it.
func PermitOf(ctx context.Context) (Permit, bool) {
	p, ok := ctx.Value(permitKey{}).(Permit)
	return p, ok
}

// CheckHost returns why a request may not be redirected to a host, nil where it
// may.
func CheckHost(ctx context.Context, host string) error {
	p, limited := PermitOf(ctx)
	switch {
	case !limited:
		return nil
	case p.Host == nil:
		return errors.New("the call may use no other host")
	}
	return p.Host(host)
}
