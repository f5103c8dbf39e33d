package sqlite

import (
	"context"
	"errors"
	"slices"

	"github.com/holdfast-dev/holdfast/session"
	"github.com/holdfast-dev/holdfast/store"
)

// tagsOf returns the tags stored for a session, sorted.
func (c *conn) tagsOf(ctx context.Context, log int64) ([]int64, error) {
	tags := []int64{}
	err := c.each(ctx, "SELECT tag FROM tags WHERE log = ? ORDER BY tag", []any{log}, func(rows *rows) error {
		var tag int64
		err := rows.Scan(&tag)
		tags = append(tags, tag)
		return err
	})
	return tags, err
}

// setTags makes the stored tags those of a version. It writes only what differs.
func (c *conn) setTags(ctx context.Context, r store.Ref, log int64, sealed session.Session) error {
	want, ok := session.Tags(sealed)
	have, err := c.tagsOf(ctx, log)
	if err != nil {
		return err
	}
	for _, tag := range have {
		if !slices.Contains(want, tag) {
			if _, err := c.exec(ctx, "DELETE FROM tags WHERE tenant = ? AND tag = ? AND log = ?", r.Tenant, tag, log); err != nil {
				return err
			}
		}
	}
	for _, tag := range want {
		if !slices.Contains(have, tag) {
			if err := c.addTag(ctx, r.Tenant, tag, log); err != nil {
				return err
			}
		}
	}
	_, err = c.exec(ctx, "UPDATE sessions SET tagged = ?1 WHERE log = ?2 AND tagged <> ?1", ok, log)
	return err
}

func (c *conn) addTag(ctx context.Context, tenant string, tag, log int64) error {
	_, err := c.exec(ctx, "INSERT OR REPLACE INTO tags (tenant, tag, log) VALUES (?, ?, ?)", tenant, tag, log)
	return err
}

// tagMissing tags the sessions of earlier programs. One that cannot be read
// stays without tags, so that listings find it and say so.
func (c *conn) tagMissing(ctx context.Context) error {
	var refs []store.Ref
	if err := c.each(ctx, "SELECT tenant, id FROM sessions WHERE tagged = 0", nil, func(rows *rows) error {
		var r store.Ref
		err := rows.Scan(&r.Tenant, &r.ID)
		refs = append(refs, r)
		return err
	}); err != nil {
		return err
	}
	for _, r := range refs {
		w, err := c.mustFind(ctx, r)
		var last session.Session
		if err == nil {
			last, err = c.folded(ctx, r, w, w.version)
		}
		if errors.Is(err, session.ErrCorrupt) || errors.Is(err, session.ErrNewerFormat) {
			continue
		}
		if err == nil {
			err = c.setTags(ctx, r, w.log, last)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// compareTags compares the stored tags with those of the last version.
func (e *examination) compareTags(ctx context.Context, c *conn, _ store.Ref) error {
	want, _ := session.Tags(e.sealed)
	have, err := c.tagsOf(ctx, e.log.log)
	if err == nil && !slices.Equal(have, want) {
		e.row = true
		e.find("its metadata is not found as the log makes it")
	}
	return err
}
