// Package sse writes server-sent events.
package sse

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Writer writes events to one reader. A reader that does not take one in time
// is given up: every method reports whether the reader is still there.
type Writer struct {
	w       http.ResponseWriter
	control *http.ResponseController
	wait    time.Duration
	buffer  bytes.Buffer
}

// NewWriter makes a writer. Wait is how long the reader may take for one event.
func NewWriter(w http.ResponseWriter, wait time.Duration) *Writer {
	return &Writer{w: w, control: http.NewResponseController(w), wait: wait}
}

// Begin sends the headers, and says how soon to reconnect unless it is 0.
func (e *Writer) Begin(reconnect time.Duration) bool {
	h := e.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // proxies must not collect events
	e.w.WriteHeader(http.StatusOK)
	if reconnect > 0 {
		fmt.Fprintf(&e.buffer, "retry: %d\n\n", reconnect.Milliseconds())
	}
	return e.flush()
}

// Send sends data as JSON, with the name of an event and an id where they are
// not empty.
func (e *Writer) Send(name, id string, data any) bool {
	body, err := json.Marshal(data)
	if err != nil {
		return false
	}
	if id != "" {
		fmt.Fprintf(&e.buffer, "id: %s\n", id)
	}
	if name != "" {
		fmt.Fprintf(&e.buffer, "event: %s\n", name)
	}
	return e.SendText(string(body))
}

// SendText sends one line of data as it is.
func (e *Writer) SendText(line string) bool {
	fmt.Fprintf(&e.buffer, "data: %s\n\n", line)
	return e.flush()
}

// Beat sends a comment, so that both sides see that the other is there.
func (e *Writer) Beat() bool {
	e.buffer.WriteString(": \n\n")
	return e.flush()
}

func (e *Writer) flush() bool {
	defer e.buffer.Reset()
	if err := e.control.SetWriteDeadline(time.Now().Add(e.wait)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return false
	}
	if _, err := e.w.Write(e.buffer.Bytes()); err != nil {
		return false
	}
	return e.control.Flush() == nil
}
