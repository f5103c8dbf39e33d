package provtest

import (
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// Reply is one answer: its content and how it is sent. The zero value is an empty
// answer that ends correctly.
type Reply struct {
	Reasoning []string // each string is an event of its own
	Signature string   // the seal on the reasoning
	Text      []string
	Calls     []Call
	Finish    string // in the protocol's word; empty: what fits
	Model     string // that answered; empty: the one asked for
	Usage     Usage

	// Instead of the above:
	Status int    // a refusal of this status, with Body
	Body   string // sent as it is, with Status or with 200
	Events []string
	Header http.Header

	// How it is sent:
	Whole       bool   // in one piece, also if a stream was asked for
	ContentType string // empty: the right one
	Newline     string // "\r\n", say; empty: "\n"
	BOM         bool
	Comments    bool // keep-alives between the events
	Tight       bool // one line end after an event, not two
	Split       int  // bytes that are sent at a time; 0: an event
	Delay       time.Duration
	Pause       time.Duration   // between two events
	Linger      time.Duration   // between the last event and the end of the stream
	HoldEvents  int             // what follows so many events waits until Release is closed
	Release     <-chan struct{} `json:"-"`

	// Where it breaks:
	Cut        bool // the connection is reset before anything is sent
	Hang       bool // nothing is ever sent
	Begun      bool // with Cut or Hang: after the headers
	CutAfter   int  // the connection is closed after so many bytes of the body
	HangAfter  int  // nothing follows after so many bytes, until the client goes
	HangEvents int  // nothing follows after so many events, until the client goes
}

// Call is a tool call. Its arguments are streamed in these pieces.
type Call struct {
	ID, Name  string
	Arguments []string
}

// Usage is the usage that the answer reports.
type Usage struct{ Input, Output, CacheRead, CacheWrite, Reasoning int64 }

func (s *Server) send(w http.ResponseWriter, r *http.Request, request Request, reply Reply) {
	if !s.wait(r, reply.Delay) {
		return
	}
	out := &pipe{server: s, w: w, r: r, reply: reply}
	if (reply.Cut || reply.Hang) && !reply.Begun {
		out.interrupt()
	}
	for name, values := range reply.Header {
		w.Header()[name] = values
	}
	whole := reply.Whole || !s.protocol.streams(request)
	kind := "text/event-stream"
	if whole || reply.Body != "" {
		kind = "application/json"
	}
	if reply.ContentType != "" {
		kind = reply.ContentType
	}
	w.Header().Set("Content-Type", kind)
	if reply.Status != 0 {
		w.WriteHeader(reply.Status)
	}
	if reply.Begun {
		w.WriteHeader(http.StatusOK)
		out.flush()
		out.interrupt()
	}
	if reply.BOM && !out.write("\ufeff") {
		return
	}
	switch {
	case reply.Status != 0 && reply.Status/100 != 2:
		out.write(reply.Body)
	case reply.Status != 0 || reply.Body != "":
		s.last(func() bool { return out.write(reply.Body) })
	case whole:
		s.last(func() bool { return out.write(s.protocol.document(reply, request)) })
	default:
		s.stream(out, request)
	}
}

func (s *Server) stream(out *pipe, request Request) {
	events := out.reply.Events
	if events == nil {
		events = s.protocol.events(out.reply, request)
		if last := s.protocol.lastEvent(); last != "" {
			events = append(events, last)
		}
	}
	newline := out.reply.Newline
	if newline == "" {
		newline = "\n"
	}
	for i, event := range events {
		if i > 0 && !s.wait(out.r, out.reply.Pause) || i > 0 && i == out.reply.HoldEvents && !s.waitForRelease(out) {
			return
		}
		text := s.protocol.frame(event, newline)
		if out.reply.Tight {
			text = strings.TrimSuffix(text, newline)
		}
		if out.reply.Comments {
			text = ": keep-alive" + newline + newline + text
		}
		if i+1 == len(events) && i+1 != out.reply.HangEvents {
			s.last(func() bool { return out.write(text) })
			s.wait(out.r, out.reply.Linger)
			return
		}
		if !out.write(text) {
			return
		}
		if i+1 == out.reply.HangEvents {
			out.interrupt()
		}
	}
}

// waitForRelease waits until the reply is released, and reports whether the
// client is still connected.
func (s *Server) waitForRelease(out *pipe) bool {
	select {
	case <-out.reply.Release:
		return true
	case <-out.r.Context().Done():
	case <-s.closing:
	}
	return false
}

// wait waits and reports whether the client is still connected.
func (s *Server) wait(r *http.Request, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
	case <-s.closing:
	}
	return false
}

// pipe writes a body up to the place where it must break.
type pipe struct {
	server *Server
	w      http.ResponseWriter
	r      *http.Request
	reply  Reply
	sent   int
}

// write sends text and reports whether all of it was sent.
func (p *pipe) write(text string) bool {
	for len(text) > 0 {
		n := len(text)
		if p.reply.Split > 0 {
			n = min(n, p.reply.Split)
		}
		for _, end := range []int{p.reply.CutAfter, p.reply.HangAfter} {
			if end > 0 {
				n = min(n, end-p.sent)
			}
		}
		if _, err := io.WriteString(p.w, text[:n]); err != nil {
			return false
		}
		p.flush()
		p.sent += n
		text = text[n:]
		if p.sent == max(p.reply.CutAfter, p.reply.HangAfter) {
			p.interrupt()
		}
	}
	return true
}

func (p *pipe) flush() { _ = http.NewResponseController(p.w).Flush() } // fails if the client has left

// interrupt stops the answer: by silence, or by closing the connection.
func (p *pipe) interrupt() {
	if p.reply.Hang || p.reply.HangAfter > 0 || p.reply.HangEvents > 0 {
		select {
		case <-p.r.Context().Done():
		case <-p.server.closing:
		}
	} else if p.reply.Cut && !p.reply.Begun {
		p.reset()
	}
	panic(http.ErrAbortHandler) // the way to leave a client without an end
}

// reset closes the connection like a machine that has crashed.
func (p *pipe) reset() {
	conn, _, err := http.NewResponseController(p.w).Hijack()
	if err != nil {
		return // it will be closed in the ordinary way
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}
