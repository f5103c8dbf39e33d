package workflow

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	holdfast "github.com/holdfast-dev/holdfast"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/tool"
	"github.com/holdfast-dev/holdfast/workflow/spec"
)

// Host is what a run needs from the program it runs in. Models is required.
type Host struct {
	// Models finds the model of an agent, and the name to show for it.
	Models func(m spec.Model) (name string, model llm.Model, err error)
	// Env is what there is to run with; its zero value has no environment.
	Env spec.Env
	// Tools makes the tools of a run. Nil: there are none.
	Tools func(ctx context.Context, s *spec.Spec, snap *spec.Snapshot) (Toolbox, error)
	// Permissions decides which tool calls within units run without asking. Nil:
	// all of them do, because the spec says which tools an agent has.
	Permissions *holdfast.Permissions
	// AllowPrivate are hosts with their ports that HTTP executors of a changed
	// spec may reach although they are not public.
	AllowPrivate []string
	// WorkDir is where relative paths of notes lie; empty: the working directory.
	WorkDir string

	// Stop, once it is closed, lets calls in flight finish and begins nothing new;
	// the run is paused. To break off at once, end the context. Nil: nobody stops.
	Stop <-chan struct{}

	// The next three are called by one goroutine at a time. Each may be nil.

	OnEvent  func(Event)                      // progress, after it was written
	OnUpdate func(holdfast.Update)            // changes after they were written, pieces of answers as they come
	Warn     func(format string, args ...any) // what does not stop a run

	Now func() time.Time // nil: the machine's clock
}

// HostFromCatalog returns a host whose models are found by their names, such as
// openai/gpt-4.1; a *catalog.Catalog finds them. A spec with a model that cannot
// be found is refused. Where a model's server is, the catalog knows: runtime.host
// of a spec has no effect. The host has no tools; set Tools for some.
func HostFromCatalog(models llm.Models) Host {
	return Host{
		Models: func(m spec.Model) (string, llm.Model, error) {
			model, err := models.Model(m.Name())
			return m.Name(), model, err
		},
		Env: spec.Env{Getenv: os.Getenv, Reach: func(m spec.Model) error {
			_, err := models.Model(m.Name())
			return err
		}},
	}
}

// Toolbox has the tools of a run.
type Toolbox interface {
	// For returns the tools of a unit, by the names its spec lists; where it has
	// no list, all there are and those named. Loaded reports a skill that the
	// conversation has been shown.
	For(names []string, listed bool, loaded func(skill string) bool) ([]tool.Tool, error)
	// Close ends what the toolbox has started.
	Close() error
}

// withDefaults fills in what is missing, for one run. Units that work at the
// same time call back one after the other.
func (h Host) withDefaults() Host {
	mu, warn := &sync.Mutex{}, h.Warn
	h.OnEvent, h.OnUpdate = serial(mu, h.OnEvent), serial(mu, h.OnUpdate)
	warnSerially := serial(mu, func(text string) {
		if warn != nil {
			warn("%s", text)
		}
	})
	h.Warn = func(format string, args ...any) { warnSerially(fmt.Sprintf(format, args...)) }
	if h.Now == nil {
		h.Now = time.Now
	}
	if h.WorkDir == "" {
		if dir, err := os.Getwd(); err == nil {
			h.WorkDir = dir
		}
	}
	return h
}

// serial lets one goroutine at a time call fn, which may be nil.
func serial[T any](mu *sync.Mutex, fn func(T)) func(T) {
	return func(v T) {
		if fn != nil {
			mu.Lock()
			defer mu.Unlock()
			fn(v)
		}
	}
}
