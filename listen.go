package holdfast

import (
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
)

// On calls fn for every event of the type it takes, of the tenant that rt sees:
// higher priorities first,
// equal ones in the order they were added. Delivery is synchronous; fn must
// not wait for the runtime. A panic of fn is recovered and logged. The
// returned function unsubscribes and may be called twice. A type that no event
// has does not compile; Wiretap takes all events.
func On[E EventType](rt *Runtime, fn func(E), priority int) (stop func()) {
	return rt.bus.add(listener{
		tenant: rt.who.Tenant, kind: reflect.TypeFor[E](), priority: priority,
		call: func(e Event) {
			if own, ok := e.(E); ok {
				fn(own)
			}
		},
	})
}

// Wiretap calls fn for every event of the tenant that rt sees, after the
// listeners of its type.
func (rt *Runtime) Wiretap(fn func(Event)) (stop func()) {
	return rt.bus.add(listener{tenant: rt.who.Tenant, call: fn})
}

// WiretapAll calls fn for every event of all tenants, whichever of them rt sees:
// for counting and waking, where one listener for each tenant would be too many.
func (rt *Runtime) WiretapAll(fn func(Event)) (stop func()) {
	return rt.bus.add(listener{all: true, call: fn})
}

type eventBus struct {
	logger *slog.Logger

	mu        sync.Mutex // guards listeners and next
	listeners []listener // in order of delivery
	next      int
}

// listener gets one type of event of a tenant, or every type when kind is nil.
type listener struct {
	id       int
	tenant   string
	all      bool // of every tenant
	kind     reflect.Type
	priority int
	call     func(Event)
}

func (b *eventBus) add(l listener) (stop func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	l.id = b.next
	at := len(b.listeners)
	for i, other := range b.listeners {
		if l.kind != nil && (other.kind == nil || other.priority < l.priority) {
			at = i
			break
		}
	}
	b.listeners = slices.Insert(slices.Clone(b.listeners), at, l)
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.listeners = slices.DeleteFunc(slices.Clone(b.listeners), func(o listener) bool { return o.id == l.id })
	}
}

func (b *eventBus) emit(e Event) {
	b.mu.Lock()
	listeners := b.listeners
	b.mu.Unlock()
	for _, l := range listeners {
		if (l.all || l.tenant == e.Subject().Tenant) && (l.kind == nil || l.kind == reflect.TypeOf(e)) {
			b.deliver(l, e)
		}
	}
}

func (b *eventBus) deliver(l listener, e Event) {
	defer func() {
		if v := recover(); v != nil {
			b.logger.Error("listener panicked", "event", fmt.Sprintf("%T", e), "panic", fmt.Sprintf("%T", v))
		}
	}()
	l.call(e)
}
