## client/ctl/
