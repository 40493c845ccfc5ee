
# Only the first sitecustomize of a path is imported, and this one stands first. The one that would have run without it (the
# distribution's, the venv's, the user's) is looked for as Python does, with this directory taken out of the search, and is
# sitecustomize then. What it raises is raised, without a line of this file in the traceback.
if __name__ == "sitecustomize":
    sys.path_importer_cache[__file__[:__file__.rindex("/")]] = None
    del sys.modules["sitecustomize"]
    try:
        import sitecustomize
    except ImportError:
        raise
    except BaseException:
        class Cut:
            # importlib drops this object from sys.modules while it handles the exception.
            def __del__(self, exc_info=sys.exc_info, file=__file__):
                entry = exc_info()[2]
                while entry is not None and entry.tb_next is not None:
                    if entry.tb_next.tb_frame.f_code.co_filename == file:
                        entry.tb_next = entry.tb_next.tb_next
                    else:
                        entry = entry.tb_next

        sys.modules["sitecustomize"] = Cut()
        raise
