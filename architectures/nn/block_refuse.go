package nn

// Refuse makes s fail because of an index that a block does not take: err says
// why. table is one of the block's tables, which sessions that cannot be told an
// error are asked for a row that it does not have.
func Refuse(s Session, table Table, err error) Array {
	if f, ok := s.(interface{ refuse(err error) Array }); ok {
		return f.refuse(err)
	}
	return s.Gather(table, []int{-1})
}

func (s *session) refuse(err error) Array {
	if !s.begin("block") {
		return dead
	}
	return s.fail("block", err)
}
