## client/python/
