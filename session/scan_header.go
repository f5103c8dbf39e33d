package session

import (
	"bytes"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// headerBegin is what a document begins with.
var headerBegin = []byte(`{"format":"` + Format + `","formatVersion":` + strconv.Itoa(FormatVersion) + `,"header":`)

// scanHeader is the header of a document in the form that it is written in. A
// listing reads one for every session that it shows.
func scanHeader(data []byte) (Info, bool) {
	if !bytes.HasPrefix(data, headerBegin) || !utf8.Valid(data) {
		return Info{}, false
	}
	p := &scanner{text: string(data[len(headerBegin):])}
	var i Info
	if !p.info(&i) {
		return Info{}, false
	}
	i, err := i.normal()
	return i, err == nil
}

// infoFields are in the order that they are written in.
var infoFields = []string{
	"sessionId", "name", "tenant", "userId", "origin", "fork", "kind", "task", "workflow", "depth", "status", "version", "seq",
	"agentName", "agentLabel", "messageCount", "pending", "createdAt", "updatedAt", "expiresAt", "parentId",
}

func (p *scanner) info(i *Info) bool {
	return p.object(infoFields, func(field int) bool {
		switch infoFields[field] {
		case "sessionId":
			return p.string(&i.ID)
		case "name":
			return p.string(&i.Name)
		case "tenant":
			return p.string(&i.Tenant)
		case "userId":
			return p.string(&i.UserID)
		case "origin":
			return p.string((*string)(&i.Origin))
		case "kind":
			return p.string((*string)(&i.Kind))
		case "status":
			return p.string((*string)(&i.Status))
		case "agentName":
			return p.string(&i.AgentName)
		case "agentLabel":
			return p.string(&i.AgentLabel)
		case "parentId":
			return p.literal("null") || p.string(&i.ParentID)
		case "fork":
			return scanOptional(p, &i.Fork)
		case "task":
			return scanOptional(p, &i.Task)
		case "workflow":
			return scanOptional(p, &i.Workflow)
		case "depth":
			return p.count(&i.Depth)
		case "version":
			return p.number(&i.Version)
		case "seq":
			return p.number(&i.Seq)
		case "messageCount":
			return p.count(&i.MessageCount)
		case "pending":
			return p.count(&i.Pending)
		case "createdAt":
			return p.time(&i.CreatedAt)
		case "updatedAt":
			return p.time(&i.UpdatedAt)
		case "expiresAt":
			if p.literal("null") {
				return true
			}
			i.ExpiresAt = new(time.Time)
			return p.time(i.ExpiresAt)
		}
		return false
	})
}

// count reads an integer that fits an int.
func (p *scanner) count(into *int) bool {
	var n int64
	ok := p.number(&n)
	*into = int(n)
	return ok && int64(*into) == n
}

// scanOptional reads null, or an object by the strict decoder.
func scanOptional[T any](p *scanner, into **T) bool {
	if p.literal("null") {
		return true
	}
	begin := p.at
	if !strings.HasPrefix(p.text[begin:], "{") || !p.skip() {
		return false
	}
	*into = new(T)
	return DecodeStrict("header", []byte(p.text[begin:p.at]), *into) == nil
}
