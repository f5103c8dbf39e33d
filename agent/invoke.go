package agent

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/tool"
)

var (
	errTimedOut  = errors.New("stopped: it ran out of time")
	errCalledOff = fmt.Errorf("stopped: %w", errCancelled)
	errStuck     = errors.New("given up: it went on after its time was over, and may still do so")
	errNoResult  = errors.New("it ended without a result")
)

func (r *run) invoke(ctx context.Context, t tool.Tool, c tool.Call) (tool.Result, error) {
	return Invoke(ctx, t, c, r.grace())
}

// Invoke calls a tool within its time and turns a panic into an error. A tool
// that does not end by then, nor within the grace period, is left to itself.
func Invoke(ctx context.Context, t tool.Tool, c tool.Call, grace time.Duration) (tool.Result, error) {
	if limit := t.Spec().Timeout; limit > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, limit)
		defer stop()
	}
	ended := make(chan outcome, 1)
	go func() {
		o := outcome{err: errNoResult}
		defer func() { ended <- o }() // also when the tool ends its goroutine
		o.result, o.err = call(ctx, t, c)
	}()
	o := outcome{err: errStuck}
	select {
	case o = <-ended:
	case <-ctx.Done():
		patience := time.NewTimer(grace)
		defer patience.Stop()
		select {
		case o = <-ended:
		case <-patience.C:
		}
	}
	switch {
	case o.err == nil, errors.Is(o.err, errStuck):
	case Cancelled(ctx):
		o.err = errCalledOff
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		o.err = errTimedOut
	}
	return o.result, o.err
}

// call calls a tool and turns a panic into an error.
func call(ctx context.Context, t tool.Tool, c tool.Call) (result tool.Result, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &session.PanicError{Where: "tool " + strconv.Quote(t.Spec().Name), Value: v}
		}
	}()
	return t.Call(ctx, c)
}

func (r *run) grace() time.Duration {
	if r.Grace > 0 {
		return r.Grace
	}
	return 5 * time.Second
}

// cutResult shortens a result to a length that a session can hold and a model
// may be shown.
func (r *run) cutResult(content string) string {
	most := r.MaxResult
	if most <= 0 {
		most = 256 << 10
	}
	if len(content) <= most {
		return content
	}
	kept := strings.ToValidUTF8(content[:most], "")
	return fmt.Sprintf("%s\n\n[cut off: these are the first %d of %d bytes]", kept, len(kept), len(content))
}
