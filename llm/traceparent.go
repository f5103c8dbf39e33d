package llm

import (
	"context"
	"regexp"
)

// traceparentKey is where a context holds the trace that a call belongs to.
type traceparentKey struct{}

// traceparentForm is the header of W3C Trace Context, version 00.
var traceparentForm = regexp.MustCompile(`^00-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}$`)

// WithTraceparent returns a context whose calls belong to a trace. A text that is
// no W3C traceparent changes nothing.
func WithTraceparent(ctx context.Context, traceparent string) context.Context {
	if !traceparentForm.MatchString(traceparent) {
		return ctx
	}
	return context.WithValue(ctx, traceparentKey{}, traceparent)
}

// Traceparent returns the trace that a call belongs to, or "".
func Traceparent(ctx context.Context) string {
	text, _ := ctx.Value(traceparentKey{}).(string)
	return text
}
