package server

import (
	"cmp"
	"context"
	"strings"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

const (
	searchPage  = 1000  // headers that are read at a time
	searchLimit = 20000 // headers that one request looks at
)

// search lists the sessions that have all words in their headers. One request
// looks at a limited number of them, so a page may have fewer sessions than
// were asked for, also none, and still a next one.
func search(ctx context.Context, c caller, q store.Query, words string) (store.Page, error) {
	wanted := strings.Fields(strings.ToLower(words))
	if len(wanted) == 0 {
		return c.rt.List(ctx, q)
	}
	want := cmp.Or(q.Limit, 50)
	q.Limit = searchPage
	found := store.Page{Items: session.Infos{}}
	for looked := 0; looked < searchLimit; looked += searchPage {
		page, err := c.rt.List(ctx, q)
		if err != nil {
			return found, err
		}
		found.Corrupt = page.Corrupt
		for _, i := range page.Items {
			if !hasWords(i, wanted) {
				continue
			}
			if found.Items = append(found.Items, i); len(found.Items) == want {
				checked, _, err := q.Check()
				found.Next = checked.CursorAfter(i)
				return found, err
			}
		}
		if found.Next = page.Next; page.Next == "" {
			break
		}
		q.Cursor = page.Next
	}
	return found, nil
}

// hasWords reports whether the header of a session has all words, which are in
// lower case.
func hasWords(i session.Info, words []string) bool {
	texts := []string{i.ID, i.Name, i.AgentName, i.AgentLabel, i.UserID}
	if i.Task != nil {
		texts = append(texts, i.Task.Title, i.Task.Prompt)
	}
	if i.Workflow != nil {
		texts = append(texts, i.Workflow.Name)
	}
	text := strings.ToLower(strings.Join(texts, "\n"))
	for _, word := range words {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}
