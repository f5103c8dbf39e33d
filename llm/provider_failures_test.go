package llm_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-dev/holdfast/internal/provtest"
	"github.com/holdfast-dev/holdfast/llm"
	"github.com/holdfast-dev/holdfast/session"
)

// told is the provider's own error inside another.
func told(t *testing.T, err error) *llm.ProviderError {
	t.Helper()
	var e *llm.ProviderError
	if !errors.As(err, &e) {
		t.Fatalf("%T is no ProviderError: %v", err, err)
	}
	return e
}

func transient(err error) (time.Duration, bool) {
	var e *llm.TransientError
	if errors.As(err, &e) {
		return e.After, true
	}
	return 0, false
}

// broken is an answer that stops before it ends.
func broken(p provider) []string {
	return map[string][]string{
		"openai":    {`{"choices":[{"index":0,"delta":{"content":"half an ans"}}]}`},
		"anthropic": {`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"half an ans"}}`},
	}[p.name]
}

// inside is an answer in which the server reports a fault of its own.
func inside(p provider, kind string) []string {
	return append(broken(p), fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":"so it goes"}}`, kind))
}

func TestInfer_failuresThatMayPass(t *testing.T) {
	each(t, func(t *testing.T, p provider) {
		cases := map[string]provtest.Reply{
			"reset at once":             {Cut: true},
			"closed after the headers":  {Cut: true, Begun: true},
			"closed in the first event": {Text: []string{"hello"}, CutAfter: 10},
			"closed in the middle":      {Text: []string{"hello", "world"}, CutAfter: 400},
			"closed in one piece":       {Text: []string{"hello"}, Whole: true, CutAfter: 30},
			"silent at once":            {Hang: true},
			"silent after the headers":  {Hang: true, Begun: true},
			"silent in the middle":      {Text: []string{"hello"}, HangAfter: 200},
			"ended too early":           {Events: broken(p)},
			"ended before it began":     {Events: []string{}},
			"overloaded in the middle":  {Events: inside(p, "overloaded_error")},
			"limited in the middle":     {Events: inside(p, "rate_limit_error")},
			"broken event":              {Events: append(broken(p), `{"half`, ``)},
			"an empty body":             {Status: 200},
			"half a document":           {Body: `{"id":`},
			"words of no protocol":      {Body: "hello\n\nworld"},
		}
		for _, status := range []int{408, 409, 425, 429, 500, 502, 503, 504, 529} {
			cases[fmt.Sprint("status ", status)] = provtest.Reply{Status: status, Body: `{"error":{"message":"so it goes","type":"t"}}`}
			cases[fmt.Sprint("page of status ", status)] = provtest.Reply{Status: status, Body: "<html><title>Bad &amp; sad</title></html>", ContentType: "text/html"}
		}
		cases["asked to try again"] = provtest.Reply{Status: 400, Header: http.Header{"X-Should-Retry": {"true"}}, Body: "{}"}
		for name, reply := range cases {
			idle := time.Minute // so that no other answer is too slow
			if reply.Hang || reply.HangAfter > 0 {
				idle = 300 * time.Millisecond
			}
			_, model := p.serve(t, provtest.Config{Replies: []provtest.Reply{reply}, Lax: true}, settings{idle: idle})
			_, err := model.Infer(t.Context(), hi(), nil)
			if _, ok := transient(err); !ok {
				t.Errorf("%s: got %v", name, err)
				continue
			}
			e := told(t, err)
			if e.Provider != p.name || e.Model != "m-1" || e.Status != reply.Status && reply.Status != 200 || e.Message == "" {
				t.Errorf("%s: got %+v", name, e)
			}
		}
	})
}

func TestInfer_failuresThatAreFinal(t *testing.T) {
	each(t, func(t *testing.T, p provider) {
		page := "<!DOCTYPE html><html><head><title>Sign in</title></head>"
		cases := map[string]struct {
			reply provtest.Reply
			want  string
		}{
			"bad request":         {provtest.Reply{Status: 400, Body: `{"error":{"message":"temperature is odd","type":"t","code":"c"}}`}, "status 400: temperature is odd (c)"},
			"forbidden":           {provtest.Reply{Status: 403, Body: `{"error":"not you"}`}, "status 403: not you"},
			"no such model":       {provtest.Reply{Status: 404, Body: `{"detail":"Not Found"}`}, "status 404: Not Found"},
			"plain words":         {provtest.Reply{Status: 413, Body: "too\n big\x00"}, "status 413: too big"},
			"no words":            {provtest.Reply{Status: 422}, "status 422: unprocessable entity"},
			"a page":              {provtest.Reply{Status: 403, Body: page}, `status 403: forbidden: "Sign in"`},
			"a list of errors":    {provtest.Reply{Status: 400, Body: `[{"error":{"message":"first","code":400}}]`}, "status 400: first (400)"},
			"a page and all well": {provtest.Reply{Body: page}, `answered with a web page: "Sign in", not with JSON`},
			"no money":            {provtest.Reply{Status: 429, Body: `{"error":{"message":"quota","code":"insufficient_quota"}}`}, "status 429: quota (insufficient_quota)"},
			"asked not to retry":  {provtest.Reply{Status: 500, Header: http.Header{"X-Should-Retry": {"false"}}}, "status 500"},
			"another address":     {provtest.Reply{Status: 307, Header: http.Header{"Location": {"http://127.0.0.1:1/"}}}, "status 307: it redirects to another address"},
			"refused inside":      {provtest.Reply{Events: inside(p, "invalid_request_error")}, "so it goes (invalid_request_error)"},
			"another protocol":    {provtest.Reply{Body: `{"hello":"world"}`}, "answer"},
			"no json in events":   {provtest.Reply{Events: []string{"hello", ""}}, "not JSON"},
			"a huge answer":       {provtest.Reply{Text: []string{strings.Repeat("x", 3000), strings.Repeat("x", 3000)}}, "larger than the limit"},
			"a huge document":     {provtest.Reply{Text: []string{strings.Repeat("x", 6000)}, Whole: true}, "larger than the limit"},
		}
		for name, c := range cases {
			_, model := p.serve(t, provtest.Config{Replies: []provtest.Reply{c.reply}, Lax: true}, settings{idle: time.Minute, maxBytes: 5000})
			_, err := model.Infer(t.Context(), hi(), nil)
			if _, ok := transient(err); ok || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: got %v, want %q", name, err, c.want)
				continue
			}
			if e := told(t, err); e.Provider != p.name || e.Model != "m-1" || e.Status != c.reply.Status {
				t.Errorf("%s: got %+v", name, e)
			}
		}
	})
}

func TestInfer_longLineIsRefused(t *testing.T) {
	each(t, func(t *testing.T, p provider) {
		model := p.answers(t, provtest.Reply{Text: []string{strings.Repeat("x", 9<<20)}})
		if _, err := model.Infer(t.Context(), hi(), nil); err == nil || !strings.Contains(err.Error(), "longer than the limit") {
			t.Errorf("got %v", err)
		}
	})
}

func TestInfer_waitsAsLongAsTheServerAsks(t *testing.T) {
	each(t, func(t *testing.T, p provider) {
		for name, c := range map[string]struct {
			status   int
			header   map[string]string
			min, max time.Duration
		}{
			"seconds":            {429, map[string]string{"Retry-After": "7"}, 7 * time.Second, 7 * time.Second},
			"parts of a second":  {503, map[string]string{"Retry-After": "0.25"}, 250 * time.Millisecond, 250 * time.Millisecond},
			"milliseconds first": {429, map[string]string{"Retry-After": "7", "Retry-After-Ms": "1500"}, 1500 * time.Millisecond, 1500 * time.Millisecond},
			"a moment":           {503, map[string]string{"Retry-After": time.Now().Add(time.Minute).UTC().Format(http.TimeFormat)}, 50 * time.Second, time.Minute},
			"a moment ago":       {503, map[string]string{"Retry-After": time.Now().Add(-time.Minute).UTC().Format(http.TimeFormat)}, 0, 0},
			"nonsense":           {429, map[string]string{"Retry-After": "soon"}, 0, 0},
			"negative":           {429, map[string]string{"Retry-After": "-3"}, 0, 0},
			"not a number":       {429, map[string]string{"Retry-After": "NaN"}, 0, 0},
			"absurd":             {429, map[string]string{"Retry-After": "1e300"}, 24 * time.Hour, 24 * time.Hour},
			"a limit used up": {429, map[string]string{
				"X-Ratelimit-Remaining-Requests": "0", "X-Ratelimit-Reset-Requests": "1m30s",
				"X-Ratelimit-Remaining-Tokens": "40", "X-Ratelimit-Reset-Tokens": "9h",
			}, 90 * time.Second, 90 * time.Second},
			"no limit used up": {500, map[string]string{"X-Ratelimit-Remaining-Requests": "0", "X-Ratelimit-Reset-Requests": "1m30s"}, 0, 0},
		} {
			header := http.Header{}
			for k, v := range c.header {
				header.Set(k, v)
			}
			_, err := p.answers(t, provtest.Reply{Status: c.status, Header: header}).Infer(t.Context(), hi(), nil)
			after, ok := transient(err)
			if !ok || after < c.min || after > c.max {
				t.Errorf("%s: wait %v, %v", name, after, err)
			}
		}
	})
}

func TestInfer_nobodyThereMayPass(t *testing.T) {
	each(t, func(t *testing.T, p provider) {
		// A port that was in use a moment ago may be another test's by now.
		model, err := p.model(settings{url: "http://127.0.0.1:1", key: key})
		if err != nil {
			t.Fatal(err)
		}
		_, err = model.Infer(t.Context(), hi(), nil)
		if _, ok := transient(err); !ok || !strings.Contains(err.Error(), "refused") {
			t.Errorf("got %v", err)
		}
	})
}

func TestInfer_unknownCertificateIsFinal(t *testing.T) {
	each(t, func(t *testing.T, p provider) {
		server := httptest.NewUnstartedServer(http.NotFoundHandler())
		server.Config.ErrorLog = log.New(io.Discard, "", 0) // it complains about our refusal
		server.StartTLS()
		t.Cleanup(server.Close)
		model, err := p.model(settings{url: server.URL, key: key})
		if err != nil {
			t.Fatal(err)
		}
		_, err = model.Infer(t.Context(), hi(), nil)
		if _, ok := transient(err); ok || err == nil || !strings.Contains(err.Error(), "no secure connection") {
			t.Errorf("got %v", err)
		}
	})
}

func TestInfer_tooLongForTheModelIsKnownAsThat(t *testing.T) {
	each(t, func(t *testing.T, p provider) {
		for _, body := range []string{
			`{"error":{"message":"too much","code":"context_length_exceeded"}}`,
			`{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`,
		} {
			_, err := p.answers(t, provtest.Reply{Status: 400, Body: body}).Infer(t.Context(), hi(), nil)
			if !errors.Is(err, session.ErrContextLength) {
				t.Errorf("got %v", err)
			}
		}
	})
}

func TestInfer_endsWithTheContext(t *testing.T) {
	each(t, func(t *testing.T, p provider) {
		for name, reply := range map[string]provtest.Reply{
			"nothing sent":   {Hang: true},
			"headers sent":   {Hang: true, Begun: true},
			"half an answer": {Text: []string{"hello"}, HangAfter: 60},
			"half a refusal": {Status: 500, Body: strings.Repeat("x", 100), HangAfter: 50},
		} {
			asked := make(chan struct{}, 1)
			server, model := p.serve(t, provtest.Config{Choose: func(provtest.Request) provtest.Reply {
				asked <- struct{}{}
				return reply
			}}, settings{})
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-asked
				cancel()
			}()
			_, err := model.Infer(ctx, hi(), nil)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: got %v", name, err)
			}
			if _, ok := transient(err); ok {
				t.Errorf("%s: the end of the context is no transient error: %v", name, err)
			}
			if calls := server.Calls(); calls.Received != 1 || calls.Answered != 0 {
				t.Errorf("%s: the server counts %+v", name, calls)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := p.answers(t, provtest.Reply{Hang: true}).Infer(ctx, hi(), nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		cancel()
		server, model := p.serve(t, provtest.Config{}, settings{})
		if _, err := model.Infer(ctx, hi(), nil); !errors.Is(err, context.Canceled) || server.Calls().Received != 0 {
			t.Errorf("a context that was over asked the server: %v", err)
		}
	})
}

func TestInfer_theKeyIsNeverSeen(t *testing.T) {
	each(t, func(t *testing.T, p provider) {
		secret := "sk-live-abcdefghijklmnop"
		half := "sk-live-****mnop"
		check := func(name string, err error) {
			t.Helper()
			var all string
			for e := err; e != nil; e = errors.Unwrap(e) {
				all += fmt.Sprintf("%v %+v ", e, e)
			}
			if err == nil || strings.Contains(all, "sk-live") || strings.Contains(all, "mnop") || strings.Contains(all, "hunter2") || strings.Contains(all, "?key") {
				t.Errorf("%s: %s", name, all)
			}
		}
		_, model := p.serve(t, provtest.Config{Key: key}, settings{key: secret}) // refused, and repeated
		_, err := model.Infer(t.Context(), hi(), nil)
		check("wrong key", err)
		if told(t, err).Status != http.StatusUnauthorized {
			t.Errorf("got %v", err)
		}
		long := strings.Repeat("x", 490) + " " + secret // a cut would leave its beginning
		for name, reply := range map[string]provtest.Reply{
			"message":    {Status: 400, Body: `{"error":{"message":"bad ` + secret + ` and ` + half + `"}}`},
			"long":       {Status: 400, Body: `{"error":{"message":"` + long + `"}}`},
			"code":       {Status: 400, Body: `{"error":{"message":"m","code":"` + secret + `"}}`},
			"plain":      {Status: 500, Body: secret},
			"page":       {Status: 500, Body: "<title>" + secret + "</title>"},
			"long page":  {Status: 500, Body: "<title>" + strings.Repeat("x", 95) + " " + secret + "</title>"},
			"fine page":  {Body: "<title>" + secret + "</title>"},
			"inside":     {Events: []string{`{"type":"error","error":{"type":"t","message":"` + secret + `"}}`}},
			"request id": {Status: 500, Header: http.Header{"X-Request-Id": {secret}}},
		} {
			_, model := p.serve(t, provtest.Config{Replies: []provtest.Reply{reply}}, settings{key: secret})
			_, err := model.Infer(t.Context(), hi(), nil)
			check(name, err)
		}
		model, err = p.model(settings{url: "http://user:hunter2-password@127.0.0.1:1/?key=" + secret})
		if err != nil {
			t.Fatal(err)
		}
		_, err = model.Infer(t.Context(), hi(), nil)
		check("address", err)
		_, err = p.model(settings{url: "ftp://" + secret})
		check("wrong address", err)
		_, err = p.model(settings{url: "http://127.0.0.1", key: secret + "\n"})
		check("key with a line end", err)
	})
}
